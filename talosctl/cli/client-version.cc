#include "talosctl/cli/client-version.h"

#include "common/base/lines.h"
#include "common/base/version.h"
#include "common/text/foreign-text.h"
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

// Indents a document: its first line with `first`, the other lines with `rest`.
kj::String indented(kj::StringPtr document, kj::StringPtr first, kj::StringPtr rest) {
  kj::Vector<kj::String> lines;
  for (auto line : Lines(document)) lines.add(kj::str(lines.empty() ? first : rest, line));
  return kj::strArray(lines, "\n");
}

}  // namespace

kj::String versionsJson(const ClientVersion& client, kj::ArrayPtr<const kj::String> servers) {
  auto lines = KJ_MAP(m, members(client)) {
    return kj::str("        \"", m.key, "\": ", jsonString(m.value));
  };
  auto answers = KJ_MAP(s, servers) {
    return indented(s, "        ", "        ");
  };
  auto list = answers.size() == 0
                  ? kj::String()
                  : kj::str(",\n    \"server\": [\n", kj::strArray(answers, ",\n"), "\n    ]");
  return kj::str("{\n    \"client\": {\n", kj::strArray(lines, ",\n"), "\n    }", list, "\n}\n");
}

kj::String versionsYaml(const ClientVersion& client, kj::ArrayPtr<const kj::String> servers) {
  auto lines = KJ_MAP(m, members(client)) {
    return kj::str("    ", m.key, ": ", codec::yamlScalar(m.value), "\n");
  };
  auto answers = KJ_MAP(s, servers) {
    return kj::str(indented(s, "    - ", "      "), "\n");
  };
  return kj::str("client:\n", kj::strArray(lines, ""), answers.size() == 0 ? "" : "server:\n",
                 kj::strArray(answers, ""));
}

}  // namespace talos::talosctl
