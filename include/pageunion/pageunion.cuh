// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 10. The umbrella: includes everything but the host reference, and says nothing itself.
#pragma once

#include <pageunion/element.hpp>
#include <pageunion/grouped_attention.cuh>
#include <pageunion/kv_cache.hpp>
#include <pageunion/merge_partials.cuh>
#include <pageunion/operands.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/planner.cuh>
#include <pageunion/policy.hpp>
#include <pageunion/prefill.cuh>
#include <pageunion/prefill.hpp>
#include <pageunion/report.hpp>
#include <pageunion/row_attention.cuh>
#include <pageunion/rules.hpp>
#include <pageunion/selection.hpp>
#include <pageunion/status.hpp>
#include <pageunion/tuning.hpp>
#include <pageunion/version.hpp>
#include <pageunion/workspace.hpp>
