// The version of this program, from its build.
#pragma once

#include <kj/string.h>

namespace talos::talosctl {

struct ClientVersion {
  kj::StringPtr tag, sha, built, compiler, os, arch;
};

ClientVersion clientVersion();
// One document: {"client": {…}, "server": […]}. `servers` are answers of nodes in the same form, as
// answer-output.h makes them; without one, "server" is absent.
kj::String versionsJson(const ClientVersion& client, kj::ArrayPtr<const kj::String> servers);
kj::String versionsYaml(const ClientVersion& client, kj::ArrayPtr<const kj::String> servers);

}  // namespace talos::talosctl
