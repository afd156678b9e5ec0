# Writes common/base/version-data.h:  cmake -DSOURCE=… -DOUT=… -DREGISTRY=… -P version.cmake
# Runs at every build and touches the file only when something changed. REGISTRY is the file that `make REGISTRY=` writes:
# where this build's installer image is published. Without the file, or with an empty one, it is published nowhere.
cmake_minimum_required(VERSION 3.25)
# Of this system. The original's versions are others; apid/grpc/method-table.inc has the one whose API this system speaks.
set(tag v0.100.0)
set(sha none)
set(built 1970-01-01T00:00:00Z)
set(git git -c safe.directory=* -C ${SOURCE})
execute_process(COMMAND ${git} rev-parse --short=8 HEAD OUTPUT_VARIABLE head RESULT_VARIABLE failed
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT failed)
  set(sha ${head})
  execute_process(COMMAND ${git} status --porcelain --untracked-files=no OUTPUT_VARIABLE changes ERROR_QUIET)
  if(NOT changes STREQUAL "")
    string(APPEND sha -dirty)
  endif()
  set(ENV{TZ} UTC)
  execute_process(COMMAND ${git} log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ OUTPUT_VARIABLE built
    OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
set(installer)
if(EXISTS "${REGISTRY}")
  file(STRINGS "${REGISTRY}" registry LIMIT_COUNT 1)
  if(registry)
    # A name without a dot, a port or "localhost" in front would be one of Docker Hub.
    set(host "(localhost|[a-z0-9-]+(\\.[a-z0-9-]+)+)(:[0-9]+)?|[a-z0-9-]+:[0-9]+")
    if(NOT registry MATCHES "^(${host})(/[a-z0-9]+([._-][a-z0-9]+)*)*$")
      message(FATAL_ERROR "REGISTRY is \"${registry}\"; use a host, maybe with a port and a path, such as registry.example.com/site")
    endif()
    set(installer ${registry}/installer)
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT
"#pragma once
constexpr const char* kVersionTag = \"@tag@\";
constexpr const char* kVersionSha = \"@sha@\";
constexpr const char* kVersionBuilt = \"@built@\";
constexpr const char* kVersionInstaller = \"@installer@\";
")
