# talos_library(NAME [IN folder] deps... [PLAIN] [FOR_TESTS] [DYNAMIC] [TESTS deps...])   a room: every *.cc of its folder
#          but main.cc and tests, and NAME-test from *-test.cc, which links TESTS, common-testing and its main.cc. Its folder
#          is that of the CMakeLists.txt, or IN below it; NAME-test is built in the same folder of the build folder.
#          PLAIN: the room does not use the large schemas, and is not compiled again when one of them changes.
#          FOR_TESTS: only tests link it. DYNAMIC: it needs shared libraries, so its test does, too
# talos_program(NAME [IN folder] deps... [AT path] [DYNAMIC])   main.cc of that folder, built as NAME in the build folder's
#          top; AT: and in the image at this path, as a link to the one file of all programs (rootfs/node). DYNAMIC: as a
#          separate file that needs shared libraries, which are copied into the image with it
# talos_reads_sources(FILE…)   TALOS_SOURCE_DIR is the checkout in these tests, which compare pages or sources with the code
# talos_needs_root(TEST…)   these tests need root of the host, which a user namespace does not give: devices, cgroups, /proc/sys
# talos_lacks(PROGRAM names...)   no function with one of these in its name is in the program
#
# Each daemon is there a second time, as NAME-debug, in debug/NAME: its own rooms are not optimized and have their
# variables, for a debugger (`make run SERVICE=NAME DEBUG=gdb`); what it shares with others is that of the build. Nothing
# but that asks for it.
#
# Most of the compile time is headers, so they are precompiled: KJ, Cap'n Proto and the large schemas
# (pch-rpc.h), for PLAIN rooms without the schemas (pch.h), each with GoogleTest for tests.
# Tests are not optimized: they are compiled more often than they run.

find_package(GTest REQUIRED)

set(test_options)
if(NOT SANITIZE)
  set(test_options -O0 -U_FORTIFY_SOURCE)
endif()

set(test_flags)   # of every unit test
if(NOT SANITIZE)   # with sanitizers the log names the skipped tests and the reasons
  set(test_flags --gtest_brief=1)
endif()

foreach(kind pch pch-rpc pch-test pch-rpc-test)
  add_library(${kind} OBJECT ${CMAKE_SOURCE_DIR}/cmake/pch.cc)
  target_precompile_headers(${kind} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/${kind}.h)
  # Checkouts share a compiler cache: its objects were compiled from the same text at another time.
  target_compile_options(${kind} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  if(kind MATCHES test)
    target_compile_options(${kind} PRIVATE ${test_options})
    set_target_properties(${kind} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
endforeach()
target_link_libraries(pch-rpc PRIVATE rpc)
target_link_libraries(pch-rpc-test PRIVATE rpc)

# talos_precompiled(TARGET [PLAIN] [TEST])   sets the precompiled headers of the target
function(talos_precompiled target)
  cmake_parse_arguments(PARSE_ARGV 1 it "PLAIN;TEST" "" "")
  set(kind pch)
  if(NOT it_PLAIN)
    string(APPEND kind -rpc)
  endif()
  if(it_TEST)
    string(APPEND kind -test)
    target_compile_options(${target} PRIVATE ${test_options})
  endif()
  if(DEV)
    target_compile_options(${target} PRIVATE "SHELL:-include ${CMAKE_SOURCE_DIR}/cmake/${kind}.h")
  else()
    target_precompile_headers(${target} REUSE_FROM ${kind})
  endif()
endfunction()

# talos_unity(TARGET)   compiles several files of the target at a time
function(talos_unity target)
  if(NOT DEV)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

# talos_set_folder([FOLDER])   sets ${talos_folder} of a room or program, if no caller has: the folder of the current
#          CMakeLists.txt, or FOLDER below it
macro(talos_set_folder)
  if(NOT talos_folder)
    set(talos_folder ${CMAKE_CURRENT_SOURCE_DIR})
    foreach(below ${ARGN})
      string(APPEND talos_folder /${below})
    endforeach()
  endif()
endmacro()

function(talos_reads_sources)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_DEFINITIONS "TALOS_SOURCE_DIR=\"${CMAKE_SOURCE_DIR}\"")
endfunction()

function(talos_needs_root)
  if(NOT FUZZ)
    set_property(TEST ${ARGN} APPEND PROPERTY LABELS root)
  endif()
endfunction()

set(talos_daemons apid backupd etcd-supervisor kubed logd manifestd networkd probed registryd trustd vipd)

# talos_debug_links(NAME links… )   sets ${debug_links}: of the same daemon's rooms, those for a debugger
function(talos_debug_links name)
  set(debug_links)
  foreach(link ${ARGN})
    foreach(daemon ${talos_daemons})
      if(name MATCHES "^${daemon}(-|$)" AND link MATCHES "^${daemon}-")
        set(link ${link}-debug)
        break()
      endif()
    endforeach()
    list(APPEND debug_links ${link})
  endforeach()
  set(debug_links ${debug_links} PARENT_SCOPE)
endfunction()

# talos_debug_options(TARGET)   of a room or a program for a debugger
function(talos_debug_options target)
  talos_precompiled(${target} TEST ${ARGN})
  target_compile_options(${target} PRIVATE -g2)
  set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL TRUE)
endfunction()

# talos_debug_room(NAME "source…" [PLAIN] LINKS links…)   NAME-debug, if it is a daemon's
function(talos_debug_room name sources)
  cmake_parse_arguments(PARSE_ARGV 2 room "PLAIN" "" "LINKS")
  list(JOIN talos_daemons "|" daemons)
  if(SANITIZE OR FUZZ OR NOT name MATCHES "^(${daemons})-")
    return()
  endif()
  talos_debug_links(${name} ${room_LINKS})
  if(NOT sources)
    add_library(${name}-debug INTERFACE)
    target_link_libraries(${name}-debug INTERFACE ${debug_links})
    return()
  endif()
  add_library(${name}-debug STATIC ${sources})
  set(plain)
  if(room_PLAIN)
    set(plain PLAIN)
  endif()
  talos_debug_options(${name}-debug ${plain})
  target_link_libraries(${name}-debug PUBLIC ${debug_links})
endfunction()

function(talos_library name)
  cmake_parse_arguments(PARSE_ARGV 1 room "PLAIN;FOR_TESTS;DYNAMIC" "IN" "TESTS")
  talos_set_folder(${room_IN})
  set(plain)
  if(room_PLAIN)
    set(plain PLAIN)
  endif()
  set(kind ${plain})
  if(room_FOR_TESTS)
    list(APPEND kind TEST)
  endif()
  set(links ${room_UNPARSED_ARGUMENTS})
  file(GLOB sources CONFIGURE_DEPENDS ${talos_folder}/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "-test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(-test|/main)\\.cc$")
  if(sources)
    add_library(${name} STATIC ${sources})
    talos_precompiled(${name} ${kind})
    # Several files at a time: a build from nothing takes half as long, and an edit some seconds more. Rooms of common
    # stay apart, because a program contains the objects that it uses, whole (talos_lacks).
    if(NOT FUZZ AND (SANITIZE OR NOT name MATCHES "^common"))
      talos_unity(${name})
    endif()
    target_link_libraries(${name} PUBLIC ${links})
  else()   # headers and tests only
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${links})
  endif()
  talos_debug_room(${name} "${sources}" ${plain} LINKS ${links})
  talos_room(${name} LINKS ${links} TESTS ${room_TESTS} common-testing)
  if(tests AND NOT FUZZ)
    add_executable(${name}-test ${tests})
    talos_precompiled(${name}-test TEST ${plain})
    # Tests, too, several files at a time: a third of the time. Names in anonymous namespaces are unique within the tests
    # of a room for that.
    talos_unity(${name}-test)
    target_link_libraries(${name}-test PRIVATE ${name} ${room_TESTS} common-testing unit-main)
    if(room_DYNAMIC)
      talos_dynamic(${name}-test)
    endif()
    set(output ${CMAKE_CURRENT_BINARY_DIR})
    if(room_IN)
      string(APPEND output /${room_IN})
      set_target_properties(${name}-test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${output})
    endif()
    add_test(NAME unit-${name} COMMAND ${name}-test ${test_flags} WORKING_DIRECTORY ${output})
    set_tests_properties(unit-${name} PROPERTIES TIMEOUT 300 LABELS unit)
    talos_unit_test(${name}-test)
  endif()
endfunction()

# talos_unit_test(TARGET)   the program of unit tests is built by `ninja units`, not by `ninja all`.
function(talos_unit_test target)
  set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  set_property(GLOBAL APPEND PROPERTY TALOS_UNITS ${target})
endfunction()

# At the end of everything: the target `units`.
function(talos_unit_targets)
  get_property(units GLOBAL PROPERTY TALOS_UNITS)
  add_custom_target(units DEPENDS ${units})
endfunction()

# So that `talosctl debug replace` knows it (common/crash/daemon-mark.h).
function(talos_daemon_mark target daemon)
  target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/daemon-mark.cc)
  target_compile_definitions(${target} PRIVATE TALOS_DAEMON="${daemon}")
endfunction()

function(talos_program name)
  cmake_parse_arguments(PARSE_ARGV 1 program "DYNAMIC" "IN;AT" "")
  talos_set_folder(${program_IN})
  set(links ${program_UNPARSED_ARGUMENTS})
  if(FUZZ)
    return()
  endif()
  if(program_AT AND program_DYNAMIC)
    set_property(GLOBAL APPEND_STRING PROPERTY TALOS_DYNAMIC "${name} ${program_AT}\n")
  elseif(program_AT)
    set_property(GLOBAL APPEND PROPERTY TALOS_NODE_NAMES ${name})
    set_property(GLOBAL APPEND PROPERTY TALOS_NODE_PATHS ${program_AT})
    set_property(GLOBAL APPEND PROPERTY TALOS_NODE_LINKS ${links})
    # The same main.cc under another name, for the one file that holds all of them.
    if(NOT SANITIZE)
      add_library(node-${name} OBJECT EXCLUDE_FROM_ALL ${talos_folder}/main.cc)
      string(MAKE_C_IDENTIFIER ${name} identifier)
      target_compile_definitions(node-${name} PRIVATE main=${identifier}Main)
      target_link_libraries(node-${name} PRIVATE ${links})
    endif()
  endif()
  add_executable(${name} ${talos_folder}/main.cc)
  talos_precompiled(${name})
  target_link_libraries(${name} PRIVATE ${links})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  if(name IN_LIST talos_daemons)
    talos_daemon_mark(${name} ${name})
  endif()
  if(name IN_LIST talos_daemons AND NOT SANITIZE)
    talos_debug_links(${name} ${links})
    add_executable(${name}-debug ${talos_folder}/main.cc)
    talos_debug_options(${name}-debug)
    target_link_libraries(${name}-debug PRIVATE ${debug_links})
    talos_daemon_mark(${name}-debug ${name})
    set_target_properties(${name}-debug PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/debug)
  endif()
  if(program_DYNAMIC)
    talos_dynamic(${name})
  endif()
endfunction()

# talos_shared(ROOM libraries...)   links shared libraries to a room of a DYNAMIC program
function(talos_shared room)
  if(SANITIZE OR FUZZ)
    target_link_libraries(${room} PUBLIC ${ARGN})
    return()
  endif()
  foreach(library ${ARGN})
    target_link_libraries(${room} PUBLIC "-Wl,-Bdynamic -l${library} -Wl,-Bstatic")
  endforeach()
endfunction()

# talos_dynamic(TARGET)   a program that uses the C library and those of talos_shared as shared libraries, and no others
function(talos_dynamic target)
  if(SANITIZE OR FUZZ)
    return()
  endif()
  get_target_property(options ${target} LINK_OPTIONS)
  list(REMOVE_ITEM options -static)
  list(FILTER options EXCLUDE REGEX "register_frame_info")
  set_target_properties(${target} PROPERTIES LINK_OPTIONS "${options};-no-pie;-Wl,-Bstatic;-static-libstdc++;-static-libgcc")
endfunction()

# talos_lacks(PROGRAM names...)   fails the build if the program has a function with one of these in its name. A
#          static program contains only functions that it can reach, so this proves what it cannot do
function(talos_lacks program)
  if(NOT TARGET ${program} OR SANITIZE)
    return()
  endif()
  list(JOIN ARGN "|" names)
  add_custom_command(TARGET ${program} POST_BUILD VERBATIM COMMENT "Functions that ${program} must not contain"
    COMMAND sh ${CMAKE_SOURCE_DIR}/cmake/lacks.sh $<TARGET_FILE:${program}> ${names})
endfunction()

# talos_room(TARGET LINKS … TESTS …)   what the files of this folder may include (arrows.awk)
function(talos_room target)
  talos_set_folder()
  cmake_parse_arguments(PARSE_ARGV 1 room "" "" "LINKS;TESTS")
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${talos_folder})
  list(JOIN room_LINKS "," links)
  list(JOIN room_TESTS "," tests)
  set_property(GLOBAL APPEND_STRING PROPERTY TALOS_ROOMS "${folder} ${target} -,${links} -,${tests}\n")
  file(GLOB files CONFIGURE_DEPENDS ${talos_folder}/*.cc ${talos_folder}/*.h)
  list(FILTER files EXCLUDE REGEX "/main\\.cc$")
  list(TRANSFORM files REPLACE "^${CMAKE_SOURCE_DIR}/" "")
  set_property(GLOBAL APPEND PROPERTY TALOS_ROOM_FILES ${files})
endfunction()

# talos_daemon(NAME)   a part without a CMakeLists.txt: a daemon whose folder is one room, NAME-lib, that links
#          common-wire; in the image as /usr/bin/NAME
function(talos_daemon name)
  set(talos_folder ${CMAKE_SOURCE_DIR}/${name})
  file(GLOB more CONFIGURE_DEPENDS ${talos_folder}/*.cc)
  list(FILTER more EXCLUDE REGEX "/main\\.cc$")
  set(links common-wire)
  if(more)
    talos_library(${name}-lib common-wire)
    set(links ${name}-lib)
  endif()
  talos_program(${name} ${links} AT /usr/bin/${name})
endfunction()

# At the end of everything: a room that includes what it does not link fails the build.
function(talos_check_arrows)
  get_property(rooms GLOBAL PROPERTY TALOS_ROOMS)
  get_property(files GLOBAL PROPERTY TALOS_ROOM_FILES)
  list(JOIN files "\n" names)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/rooms.txt CONTENT "${rooms}" @ONLY)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/room-files.txt CONTENT "${names}\n" @ONLY)
  add_custom_command(OUTPUT arrows.stamp
    COMMAND xargs -a ${CMAKE_BINARY_DIR}/room-files.txt awk -f cmake/arrows.awk ${CMAKE_BINARY_DIR}/rooms.txt
    COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/arrows.stamp
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    DEPENDS ${files} ${CMAKE_BINARY_DIR}/rooms.txt cmake/arrows.awk
    VERBATIM COMMENT "Arrows between rooms")
  add_custom_target(arrows ALL DEPENDS arrows.stamp)
endfunction()
