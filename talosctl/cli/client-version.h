// The version of this program, from its build.
#pragma once

#include <kj/string.h>

namespace talos::talosctl {

struct ClientVersion {
  kj::StringPtr tag, sha, built, compiler, os, arch;
};

ClientVersion clientVersion();
// Returns one document: {"client": {…}, "server": […]}. `servers` are the nodes' answers as
// answer-output.h renders them; if there are no servers, "server" is absent.
kj::String versionsJson(const ClientVersion& client, kj::ArrayPtr<const kj::String> servers);
kj::String versionsYaml(const ClientVersion& client, kj::ArrayPtr<const kj::String> servers);

}  // namespace talos::talosctl
