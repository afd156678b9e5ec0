// Machine configs, patches of them, and the YAML that both are written in.
//
// link: common-config talosctl-config
#include <kj/debug.h>

#include <algorithm>
#include <string_view>

#include "common/base/error.h"
#include "common/config/config-redact.h"
#include "common/config/config.h"
#include "common/text/diff.h"
#include "common/toml/toml.h"
#include "common/yaml/yaml.h"
#include "talosctl/config/config-shape.h"
#include "talosctl/config/patch.h"
#include "tests/fuzz/fuzz-target.h"

// A machine config from a server or a user: any bytes end in a view and in problems with their
// places.
FUZZ_TARGET(config) {
  using namespace talos;
  auto config = config::parse(kj::arrayPtr(reinterpret_cast<const char*>(data), size), "fuzz");
  Problems problems;
  config::checkMode(config, config::Mode::kMetal, "fuzz", problems);
  render(config.problems());
  KJ_ASSERT(config.bytes().size() == size);
  if (!config.good()) return 0;
  // A valid config stays valid when it is written from its view.
  auto text = codec::writeYaml(config.get(), {.empties = codec::Empties::kOmit});
  auto again = config::parse(text, "again");
  KJ_ASSERT(again.good(), text, render(again.problems()));
  return 0;
}

// Machine configs of anybody, shown without their secrets: as many lines as before, and nothing of
// the secrets that the reader finds.
FUZZ_TARGET(redact) {
  using namespace talos;
  auto text = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  auto shown = config::redact(text);
  if (shown.startsWith("*** (")) return 0;
  KJ_ASSERT(std::count(shown.begin(), shown.end(), '\n') ==
            std::count(text.begin(), text.end(), '\n'));
  auto config = config::parse(text, "fuzz");
  if (!config.good()) return 0;
  std::string_view before(text.begin(), text.size()), after(shown.begin(), shown.size());
  for (kj::StringPtr secret : {kj::StringPtr(config.get().getMachine().getToken()),
                               kj::StringPtr(config.get().getCluster().getToken())}) {
    std::string_view value(secret.begin(), secret.size());
    // A value that occurs once in the config is the secret itself.
    if (value.size() < 8 || before.find(value) != before.rfind(value)) continue;
    KJ_ASSERT(after.find(value) == after.npos, shown);
  }
  return 0;
}

// Any bytes as YAML: they end in a tree or in one problem, and the text of a written tree reads as
// the same tree.
FUZZ_TARGET(yaml) {
  using namespace talos::codec;
  auto text = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  talos::Problems problems;
  YamlStream stream(text, "fuzz", problems);
  KJ_ASSERT(problems.size() <= 1);
  render(problems);
  for (auto* root : stream.documents()) {
    stream.textOf(*root);
    auto written = renderYaml(*root, 4, 0);
    auto json = renderJson(*root, 0);
    talos::Problems again;
    YamlStream second(written, "again", again);
    if (written.size() > kMaxDocumentBytes) continue;
    // Aliases are written out and keys over 1024 characters have no short form: both may meet a
    // limit.
    if (again.size() > 0) continue;
    KJ_ASSERT(second.documents().size() == 1, written);
    KJ_ASSERT(renderJson(*second.documents()[0], 0) == json, written, json);
  }
  return 0;
}

// Any bytes as TOML: they end in a tree or in an error with its place, and a written tree reads as
// the same tree.
FUZZ_TARGET(toml) {
  using namespace talos;
  auto text = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  kj::Maybe<kj::String> written;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                 auto tree = toml::read(text);
                 written = toml::write(tree);
               })) {
    KJ_ASSERT(messageOf(*e).startsWith("line "), *e);
  }
  KJ_IF_MAYBE (first, written) {
    if (first->size() > toml::kMostBytes) return 0;  // names of tables are written for each table
    auto second = toml::write(toml::read(first->asArray()));
    KJ_ASSERT(*first == second, *first, second);
  }
  return 0;
}

namespace {

using namespace talos;

const PatchNames kNames{.shapeOf = &talosctl::shapeOfConfig};

// A JSON Patch that replaces and does nothing else.
bool onlyReplaces(kj::StringPtr patch) {
  Problems problems;
  codec::YamlStream stream(patch, "", problems);
  for (auto* document : stream.documents()) {
    if (document->kind != codec::YamlNode::Kind::kSequence) return false;
    for (auto* operation : document->items) {
      for (auto& entry : operation->entries) {
        if (entry.key == "op" && entry.value->text != "replace") return false;
      }
    }
  }
  return true;
}

}  // namespace

// Any patches for any documents (the two with a zero byte between them): they end in a document
// with the meaning of the patch, or in problems.
FUZZ_TARGET(patch) {
  auto text = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  auto zero = std::find(text.begin(), text.end(), '\0') - text.begin();
  auto document = kj::heapString(text.slice(0, zero));
  auto patch = kj::heapString(text.slice(std::min<size_t>(zero + 1, size), size));

  Problems none;
  KJ_IF_MAYBE (same, applyPatch(document, "[]", none)) {
    KJ_ASSERT(*same == document);
  }

  Problems problems;
  auto result = applyPatch(document, patch, problems, kNames);
  KJ_ASSERT((result == nullptr) == hasErrors(problems));
  render(problems);
  KJ_IF_MAYBE (changed, result) {
    Problems found;
    codec::YamlStream stream(*changed, "result", found);
    KJ_ASSERT(found.size() == 0, *changed, render(found));
    auto difference = unifiedDiff(document, *changed, "before", "after");
    KJ_ASSERT((difference.size() == 0) == (document == *changed));
    if (!onlyReplaces(patch)) return 0;
    Problems second;
    KJ_IF_MAYBE (again, applyPatch(*changed, patch, second, kNames)) {
      KJ_ASSERT(*again == *changed, *again);
    }
  }
  return 0;
}
