// The version of this program, from its build.
#pragma once

#include <kj/string.h>

namespace talos::talosctl {

struct ClientVersion {
  kj::StringPtr tag, sha, built, compiler, os, arch;
};

ClientVersion clientVersion();
kj::String clientVersionJson(const ClientVersion& version);  // {"client": {…}}
kj::String clientVersionYaml(const ClientVersion& version);

}  // namespace talos::talosctl
