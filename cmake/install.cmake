# SPDX-License-Identifier: Apache-2.0
# Installs the headers and a relocatable package that find_package(pageunion) finds.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/pageunion)

install(TARGETS pageunion EXPORT pageunion-targets FILE_SET HEADERS)
install(EXPORT pageunion-targets NAMESPACE pageunion:: DESTINATION ${package_dir})

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/pageunion-config.cmake.in
  ${PROJECT_BINARY_DIR}/pageunion-config.cmake
  INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/pageunion-config-version.cmake
  COMPATIBILITY SameMinorVersion
  ARCH_INDEPENDENT)
install(
  FILES
    ${PROJECT_BINARY_DIR}/pageunion-config.cmake
    ${PROJECT_BINARY_DIR}/pageunion-config-version.cmake
  DESTINATION ${package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/pageunion)
