#include "talosctl/config/patch.h"

#include "common/base/file.h"
#include "common/config/config-check.h"
#include "common/memory/zeroize.h"
#include "common/text/foreign-text.h"
#include "talosctl/config/patch-value.h"

namespace talos {
namespace {

using codec::YamlNode;
using codec::YamlStream;
using patch::Refusal;
using patch::Value;

void report(Problems& problems, kj::StringPtr file, Refusal&& refusal) {
  auto& problem = problems.add();
  problem.file = kj::str(file);
  problem.line = refusal.place.line;
  problem.column = refusal.place.column;
  problem.path = kj::mv(refusal.path);
  problem.message = kj::mv(refusal.message);
  problem.hint = kj::mv(refusal.hint);
}

// Refuses documents with a kind, which exist beside the machine config.
void refuseOtherKinds(const YamlNode& part) {
  const YamlNode* kind = nullptr;
  for (auto& entry : part.entries) {
    if (entry.key == "machine") return;
    if (entry.key == "kind") kind = entry.value;
  }
  if (kind == nullptr) return;
  auto name = kind->kind == YamlNode::Kind::kScalar ? kj::str("kind ", jsonString(kind->text), " ")
                                                    : kj::str("a kind ");
  auto hint = kj::str("remove it");
  KJ_IF_MAYBE (later, config::laterKindOf(part)) {
    if (later->replacement.size() > 0) hint = kj::str("remove it; use ", later->replacement);
  }
  throw Refusal{part.place,
                {},
                kj::str("cannot merge a document with ", name, "into the machine config"),
                kj::mv(hint)};
}

// Returns the position of the marker that ends the document.
size_t endOf(kj::ArrayPtr<const char> source, const YamlNode& root) {
  for (size_t i = root.begin; i + 3 <= source.size(); ++i) {
    if (i == root.begin || source[i - 1] != '\n') continue;
    auto line = source.slice(i, i + 3);
    bool marker = line == "---"_kj.asArray() || line == "..."_kj.asArray();
    bool alone = i + 3 == source.size() || source[i + 3] == ' ' || source[i + 3] == '\n' ||
                 source[i + 3] == '\r' || source[i + 3] == '\t';
    if (marker && alone) return i;
  }
  return source.size();
}

class Patcher {
 public:
  Patcher(kj::ArrayPtr<const char> document, kj::ArrayPtr<const char> patch, Problems& problems,
          const PatchNames& names)
      : problems(problems),
        names(names),
        before(problems.size()),
        document(document, names.document, problems),
        patch(patch, names.patch, problems) {}

  kj::Maybe<kj::String> run() {
    if (problems.size() > before) return nullptr;
    if (document.documents().size() == 0) {
      report(problems, names.document, {{}, {}, kj::str("the document is empty"), {}});
      return nullptr;
    }
    target = config::machineConfigIn(document).orDefault(0);
    auto& root = *document.documents()[target];
    auto was = patch::valueOf(root), now = patch::valueOf(root);
    try {
      if (!apply(now)) return nullptr;
    } catch (Refusal& refusal) {
      report(problems, names.patch, kj::mv(refusal));
      return nullptr;
    }
    auto source = document.text();
    if (patch::isSame(*was, *now)) return kj::heapString(source);
    if (now->bytes() > codec::kMaxExpandedBytes) {
      report(problems, names.patch,
             {{},
              {},
              kj::str("the patched document is too large: ", now->bytes(), " bytes"),
              kj::str("the limit is ", codec::kMaxDocumentBytes, " bytes")});
      return nullptr;
    }
    patch::Region region{source, root.begin, endOf(source, root)};
    return write(region, *was, *now);
  }

 private:
  Problems& problems;
  const PatchNames& names;
  size_t before;
  YamlStream document, patch;
  patch::Texts texts;
  size_t target = 0;

  bool apply(kj::Own<Value>& value) {
    if (patch.documents().size() == 0)
      throw Refusal{{},
                    {},
                    kj::str("the patch is empty"),
                    kj::str("use [] for a patch that changes nothing")};
    patch::Budget budget;
    for (auto* part : patch.documents()) {
      if (part->kind == YamlNode::Kind::kSequence) {
        if (!patch::applyOperations(value, *part, texts, budget, problems, names)) return false;
      } else if (part->kind == YamlNode::Kind::kMapping) {
        refuseOtherKinds(*part);
        patch::mergeDocument(value, *part, budget);
      } else {
        throw Refusal{part->place,
                      {},
                      kj::str("not a valid patch"),
                      kj::str("use a list of operations (JSON Patch) or a mapping to merge")};
      }
    }
    return true;
  }

  kj::Maybe<kj::String> write(patch::Region region, const Value& was, const Value& now) {
    Problems last;
    for (int attempt = 0; attempt < 3; ++attempt) {
      auto text = attempt == 0 ? patch::splice(document, region, was, now)
                               : patch::rewrite(document, region, was, now, attempt == 1);
      last.clear();
      if (means(text, now, last)) return kj::mv(text);
      zeroize(text.asArray());
    }
    auto problem = last.size() > 0 ? kj::str(last[0].message) : kj::str("its meaning would change");
    report(problems, names.patch,
           {{}, {}, kj::str("cannot write the patched document: ", problem), {}});
    return nullptr;
  }

  // Returns true if the text holds the same documents as before, except for the target, which must
  // be `now`.
  bool means(kj::StringPtr text, const Value& now, Problems& found) {
    YamlStream again(text, names.document, found);
    if (found.size() > 0 || again.documents().size() != document.documents().size()) return false;
    for (size_t i = 0; i < again.documents().size(); ++i) {
      auto value = patch::valueOf(*again.documents()[i]);
      bool same = i == target ? patch::isSame(*value, now)
                              : patch::isSame(*value, *patch::valueOf(*document.documents()[i]));
      if (!same) return false;
    }
    return true;
  }
};

}  // namespace

kj::Maybe<kj::String> applyPatch(kj::StringPtr document, kj::StringPtr patch, Problems& problems,
                                 const PatchNames& names) {
  Patcher patcher(document, patch, problems, names);
  KJ_IF_MAYBE (text, patcher.run()) {
    if (!document.startsWith("\xef\xbb\xbf")) return kj::mv(*text);
    return kj::str("\xef\xbb\xbf", *text);
  }
  return nullptr;
}

}  // namespace talos
