#include "talosctl/cli/client-version.h"

#include "common/base/version.h"
#include "common/yaml/yaml-codec.h"

namespace talos::talosctl {

ClientVersion clientVersion() {
  auto v = buildVersion();
  return {v.tag, v.sha, v.built, v.compiler, v.os, v.arch};
}

namespace {

struct Member {
  kj::StringPtr key;
  kj::StringPtr value;
};

kj::Array<Member> members(const ClientVersion& v) {
  return kj::arr(Member{"tag", v.tag}, Member{"sha", v.sha}, Member{"built", v.built},
                 Member{"compiler", v.compiler}, Member{"os", v.os}, Member{"arch", v.arch});
}

}  // namespace

kj::String clientVersionJson(const ClientVersion& version) {
  auto lines = KJ_MAP(m, members(version)) {
    return kj::str("        \"", m.key, "\": ", codec::jsonString(m.value));
  };
  return kj::str("{\n    \"client\": {\n", kj::strArray(lines, ",\n"), "\n    }\n}\n");
}

kj::String clientVersionYaml(const ClientVersion& version) {
  auto lines = KJ_MAP(m, members(version)) {
    return kj::str("    ", m.key, ": ", codec::yamlScalar(m.value), "\n");
  };
  return kj::str("client:\n", kj::strArray(lines, ""));
}

}  // namespace talos::talosctl
