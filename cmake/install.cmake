# What `cmake --install` puts where, in three components, which are also Debian's packages: libgqa0 (the library),
# libgqa-dev (headers, gqa.pc, the CMake package gqa::gqa) and gqa-cache (the command, its manual page, completions).
# Owns: places and names. Never: a path of this machine in what is installed, with one exception, which is asked for:
# without GQA_INSTALL_DLPACK gqa.pc names the folder of the dlpack/dlpack.h that gqa.h includes.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(headers runtime/api/gqa.h runtime/api/gqa_graph.h
  bindings/cpp/gqa.hpp bindings/cpp/gqa_graph.hpp bindings/cpp/gqa_operators.hpp)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gqa)

install(TARGETS gqa EXPORT gqa-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libgqa0 NAMELINK_COMPONENT libgqa-dev
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT libgqa-dev)

# dlpack.h stands below a folder of its own, where it is in the way of no other.
if(GQA_INSTALL_DLPACK)
  install(FILES ${GQA_DLPACK_INCLUDE}/dlpack/dlpack.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gqa/dlpack
    COMPONENT libgqa-dev)
  set(pc_dlpack "\${includedir}/gqa")
else()
  set(pc_dlpack ${GQA_DLPACK_INCLUDE})
endif()

# The way from gqa.pc to the prefix, so that a folder that was moved still works.
file(RELATIVE_PATH up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" up ${up})
configure_file(cmake/gqa.pc.in ${PROJECT_BINARY_DIR}/install/gqa.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/install/gqa.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT libgqa-dev)

configure_package_config_file(cmake/gqa-config.cmake.in ${PROJECT_BINARY_DIR}/install/gqa-config.cmake
  INSTALL_DESTINATION ${package_dir} NO_CHECK_REQUIRED_COMPONENTS_MACRO PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/install/gqa-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/install/gqa-config.cmake ${PROJECT_BINARY_DIR}/install/gqa-config-version.cmake
  DESTINATION ${package_dir} COMPONENT libgqa-dev)
install(EXPORT gqa-targets NAMESPACE gqa:: DESTINATION ${package_dir} COMPONENT libgqa-dev)

if(TARGET gqa-cache)
  # Its pages are written by what it says of itself.
  set(pages ${PROJECT_BINARY_DIR}/install/gqa-cache.1 ${PROJECT_BINARY_DIR}/install/gqa-cache.bash
    ${PROJECT_BINARY_DIR}/install/_gqa-cache ${PROJECT_BINARY_DIR}/install/gqa-cache.fish)
  add_custom_command(OUTPUT ${pages} VERBATIM DEPENDS gqa-cache ${PROJECT_SOURCE_DIR}/cmake/command_pages.cmake
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:gqa-cache> -DVERSION=${PROJECT_VERSION}
      -DOUTPUT=${PROJECT_BINARY_DIR}/install -P ${PROJECT_SOURCE_DIR}/cmake/command_pages.cmake)
  add_custom_target(gqa-cache-pages ALL DEPENDS ${pages})

  install(TARGETS gqa-cache RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT gqa-cache)
  install(FILES ${PROJECT_BINARY_DIR}/install/gqa-cache.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT gqa-cache)
  install(FILES ${PROJECT_BINARY_DIR}/install/gqa-cache.bash RENAME gqa-cache
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT gqa-cache)
  install(FILES ${PROJECT_BINARY_DIR}/install/_gqa-cache
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT gqa-cache)
  install(FILES ${PROJECT_BINARY_DIR}/install/gqa-cache.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT gqa-cache)
endif()
