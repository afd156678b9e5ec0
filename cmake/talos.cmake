# talos_library(NAME deps...)   every *.cc of this folder but main.cc and tests, and <NAME>-test from *-test.cc
# talos_program(NAME deps...)   main.cc of this folder, installed under NAME in the build folder's top
# Both use one precompiled header of KJ and Cap'n Proto.

add_library(pch OBJECT ${CMAKE_SOURCE_DIR}/cmake/pch.cc)
target_precompile_headers(pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/pch.h)

find_package(GTest REQUIRED)
find_package(Threads REQUIRED)

set(test_flags)   # of every unit test
if(NOT SANITIZE)   # there the log names the tests that are skipped, and why
  set(test_flags --gtest_brief=1)
endif()

function(talos_library name)
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "-test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(-test|/main)\\.cc$")
  if(sources)
    add_library(${name} STATIC ${sources})
    target_precompile_headers(${name} REUSE_FROM pch)
    target_link_libraries(${name} PUBLIC ${ARGN})
  else()   # headers and tests only
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${ARGN})
  endif()
  if(tests AND NOT FUZZ)
    add_executable(${name}-test ${tests})
    target_precompile_headers(${name}-test REUSE_FROM pch)
    target_link_libraries(${name}-test PRIVATE ${name} GTest::gmock_main)
    add_test(NAME unit-${name} COMMAND ${name}-test ${test_flags})
    set_tests_properties(unit-${name} PROPERTIES TIMEOUT 300 LABELS unit)
  endif()
endfunction()

function(talos_program name)
  if(FUZZ)
    return()
  endif()
  add_executable(${name} main.cc)
  target_precompile_headers(${name} REUSE_FROM pch)
  target_link_libraries(${name} PRIVATE ${ARGN})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
endfunction()
