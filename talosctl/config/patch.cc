#include "talosctl/config/patch.h"

#include "common/base/file.h"
#include "common/config/config-reading.h"
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

// A document of a stream: the machine config, or a document with a kind beside it, which is the
// same as another one if apiVersion, kind and name are equal.
struct Identity {
  bool hasKind = false;
  kj::StringPtr apiVersion, kind, name;

  bool operator==(const Identity& other) const {
    return hasKind == other.hasKind && apiVersion == other.apiVersion && kind == other.kind &&
           name == other.name;
  }
  kj::String toString() const {
    return kj::str("kind ", jsonString(kind), name.size() == 0 ? "" : " and name ",
                   name.size() == 0 ? kj::str() : jsonString(name));
  }
};

constexpr kj::StringPtr kApiVersion = "v1alpha1"_kj;

Identity identityOf(const YamlNode& root) {
  Identity identity{.apiVersion = kApiVersion};
  for (auto& entry : root.entries) {
    if (entry.key == "machine") return {};
    bool scalar = entry.value->kind == YamlNode::Kind::kScalar;
    auto text = scalar ? kj::StringPtr(entry.value->text) : ""_kj;
    if (entry.key == "kind") identity.hasKind = true, identity.kind = text;
    if (entry.key == "apiVersion") identity.apiVersion = text;
    if (entry.key == "name") identity.name = text;
  }
  if (!identity.hasKind) return {};
  return identity;
}

// Returns true for a part of a patch that names nothing to change: {}, or only the version.
bool namesNothing(const YamlNode& part) {
  if (part.kind == YamlNode::Kind::kNull) return true;
  if (part.kind != YamlNode::Kind::kMapping) return false;
  for (auto& entry : part.entries) {
    if (entry.key != "version") return false;
  }
  return true;
}

// Refuses a document of a patch without a valid kind or apiVersion.
void checkIdentity(const YamlNode& part, const Identity& identity) {
  if (identity.kind.size() == 0) {
    throw Refusal{part.place, kj::str("kind"), kj::str("not a valid kind of a document"),
                  kj::str("use for example UserVolumeConfig")};
  }
  bool given = false;
  for (auto& entry : part.entries) given = given || entry.key == "apiVersion";
  if (given && identity.apiVersion == kApiVersion) return;
  throw Refusal{
      part.place, kj::str("apiVersion"),
      kj::str(given ? "not valid" : "missing", " in a document with ", identity.toString()),
      kj::str("use ", kApiVersion)};
}

bool isMarker(kj::ArrayPtr<const char> source, size_t i) {
  if (i + 3 > source.size()) return false;
  auto line = source.slice(i, i + 3);
  bool marker = line == "---"_kj.asArray() || line == "..."_kj.asArray();
  return marker && (i + 3 == source.size() || source[i + 3] == ' ' || source[i + 3] == '\n' ||
                    source[i + 3] == '\r' || source[i + 3] == '\t');
}

// Returns the position of the marker that ends the document.
size_t endOf(kj::ArrayPtr<const char> source, const YamlNode& root) {
  for (size_t i = root.begin + 1; i + 3 <= source.size(); ++i) {
    if (source[i - 1] == '\n' && isMarker(source, i)) return i;
  }
  return source.size();
}

// Returns the position of the marker that begins the document, or the start of its first line if it
// has no marker.
size_t startOf(kj::ArrayPtr<const char> source, const YamlNode& root) {
  auto lineStart = [&](size_t i) {
    while (i > 0 && source[i - 1] != '\n') --i;
    return i;
  };
  size_t first = lineStart(root.begin);
  for (size_t line = first;; line = lineStart(line - 1)) {
    if (isMarker(source, line)) return line;
    if (line == 0) return first;
  }
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
    readDocuments();
    try {
      if (!apply()) return nullptr;
    } catch (Refusal& refusal) {
      report(problems, names.patch, kj::mv(refusal));
      return nullptr;
    }
    if (!isChanged()) return kj::heapString(document.text());
    size_t bytes = 0;
    for (auto& part : parts) bytes += part.removed ? 0 : part.now->bytes();
    if (bytes > codec::kMaxExpandedBytes) {
      report(problems, names.patch,
             {{},
              {},
              kj::str("the patched document is too large: ", bytes, " bytes"),
              kj::str("the limit is ", codec::kMaxDocumentBytes, " bytes")});
      return nullptr;
    }
    return write();
  }

 private:
  struct Part {
    const YamlNode& root;  // in the config, or in the patch if `added`
    Identity identity;
    kj::Own<Value> was, now;  // `was` is nullptr if `added`
    bool added = false, removed = false;
  };

  Problems& problems;
  const PatchNames& names;
  size_t before;
  YamlStream document, patch;
  patch::Texts texts;
  std::vector<Part> parts;   // those of the config, then those that the patch adds
  kj::Maybe<size_t> target;  // the machine config

  void readDocuments() {
    for (auto* root : document.documents()) {
      parts.push_back(Part{*root, identityOf(*root), patch::valueOf(*root), patch::valueOf(*root)});
    }
    target = config::machineConfigIn(document);
    for (size_t i = 0; i < parts.size() && target == nullptr; ++i) {
      if (!parts[i].identity.hasKind) target = i;
    }
  }

  void note(codec::Place place, kj::String message) {
    report(problems, names.patch, {place, {}, kj::mv(message), {}});
    problems.back().severity = Problem::Severity::kWarning;
  }

  bool apply() {
    patch::Budget budget;
    removeFromConfig(budget);
    bool empty = true;
    for (auto* part : patch.documents()) {
      bool nothing = namesNothing(*part);
      empty = empty && nothing;
      if (part->kind == YamlNode::Kind::kNull || (nothing && target == nullptr)) continue;
      if (part->kind == YamlNode::Kind::kSequence) {
        size_t main = 0;
        KJ_IF_MAYBE (index, target) main = *index;
        if (!patch::applyOperations(parts[main].now, *part, texts, budget, problems, names))
          return false;
      } else if (part->kind == YamlNode::Kind::kMapping) {
        merge(*part, budget);
      } else {
        throw Refusal{part->place,
                      {},
                      kj::str("not a valid patch"),
                      kj::str("use a list of operations (JSON Patch) or a mapping to merge")};
      }
    }
    if (empty && !isChanged()) note({}, kj::str("the patch is empty and changes nothing"));
    return true;
  }

  // Applies all deletes for the machine config before any document is merged into it.
  void removeFromConfig(patch::Budget& budget) {
    patch::LeftOutKeys leftOut{names, problems};
    for (auto* part : patch.documents()) {
      if (part->kind != YamlNode::Kind::kMapping || identityOf(*part).hasKind) continue;
      if (patch::deletesDocument(*part)) {
        throw Refusal{part->place, {}, kj::str("cannot remove the whole document"), {}};
      }
      KJ_IF_MAYBE (index, target) {
        patch::removeMarked(*parts[*index].now, *part, "", budget, leftOut);
      }
    }
  }

  void merge(const YamlNode& part, patch::Budget& budget) {
    auto identity = identityOf(part);
    if (identity.hasKind) checkIdentity(part, identity);
    bool removes = identity.hasKind && patch::deletesDocument(part);
    KJ_IF_MAYBE (index, partWith(identity)) {
      auto& found = parts[*index];
      found.removed = removes;
      if (removes) return;
      if (identity.hasKind) patch::removeMarked(*found.now, part, identity.kind, budget);
      patch::mergeDocument(*found.now, part, identity.kind, budget);
    } else if (removes) {
      noteMissing(part, identity);
    } else {
      append(part, identity, budget);
    }
  }

  kj::Maybe<size_t> partWith(const Identity& identity) {
    if (!identity.hasKind) return target;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!parts[i].removed && parts[i].identity == identity) return i;
    }
    return nullptr;
  }

  void append(const YamlNode& part, const Identity& identity, patch::Budget& budget) {
    budget.spend(part.size);
    auto value = patch::valueOf(part);
    if (patch::dropMarked(*value, budget)) {
      noteMissing(part, identity);
      bool empty = true;
      for (auto& member : value->members) {
        empty =
            empty && (member.key == "apiVersion" || member.key == "kind" || member.key == "name");
      }
      if (empty) return;
    }
    if (!identity.hasKind) target = parts.size();
    parts.push_back(Part{part, identity, {}, kj::mv(value), true});
  }

  void noteMissing(const YamlNode& part, const Identity& identity) {
    note(part.place, kj::str("nothing to delete: the config has no document with ",
                             identity.hasKind ? identity.toString() : kj::str("the key machine")));
  }

  bool isChanged() const {
    for (auto& part : parts) {
      if (part.added ? !part.removed : part.removed || !patch::isSame(*part.was, *part.now))
        return true;
    }
    return false;
  }

  kj::Maybe<kj::String> write() {
    Problems last;
    for (int attempt = 0; attempt < 3; ++attempt) {
      auto text = textOf(attempt);
      last.clear();
      if (means(text, last)) return kj::mv(text);
      zeroize(text.asArray());
    }
    auto problem = last.size() > 0 ? kj::str(last[0].message) : kj::str("its meaning would change");
    report(problems, names.patch,
           {{}, {}, kj::str("cannot write the patched document: ", problem), {}});
    return nullptr;
  }

  // Returns true if the source lacks the last newline and a document is added after it. A newline
  // there may become part of a text in the last lines.
  bool isOpenBeforeAdded(kj::ArrayPtr<const char> source) const {
    if (source.size() == 0 || source[source.size() - 1] == '\n') return false;
    for (auto& part : parts) {
      if (part.added && !part.removed) return true;
    }
    return false;
  }

  // Changes the last document first, so that the places of the documents before it stay valid.
  kj::String textOf(int attempt) {
    auto source = document.text();
    auto text = kj::heapString(source);
    auto replace = [&](kj::String changed) {
      zeroize(text.asArray());
      text = kj::mv(changed);
    };
    size_t count = document.documents().size();
    for (size_t i = count; i-- > 0;) {
      auto& part = parts[i];
      bool mustEnd = attempt == 2 && i + 1 == count && isOpenBeforeAdded(source);
      if (!part.removed && !mustEnd && patch::isSame(*part.was, *part.now)) continue;
      kj::StringPtr old = text;
      size_t end = endOf(source, part.root);
      patch::Region region{old.asArray(), part.root.begin, end};
      if (part.removed) {
        replace(kj::str(old.slice(0, startOf(source, part.root)), old.slice(end)));
      } else if (attempt == 0) {
        replace(patch::splice(document, region, *part.was, *part.now));
      } else {
        replace(patch::rewrite(document, region, *part.was, *part.now, attempt == 1));
      }
    }
    for (auto& part : parts) {
      if (!part.added || part.removed) continue;
      auto added = patch::newDocument(patch, part.root, *part.now, attempt < 2);
      bool openLine = text.size() > 0 && !text.endsWith("\n");
      replace(kj::str(text, openLine ? "\n" : "", "---\n", added));
      zeroize(added.asArray());
    }
    return text;
  }

  // Returns true if the text holds exactly the documents of `parts`.
  bool means(kj::StringPtr text, Problems& found) {
    YamlStream again(text, names.document, found);
    if (found.size() > 0) return false;
    auto roots = again.documents();
    size_t next = 0;
    for (auto& part : parts) {
      if (part.removed) continue;
      if (next == roots.size()) return false;
      if (!patch::isSame(*patch::valueOf(*roots[next++]), *part.now)) return false;
    }
    return next == roots.size();
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
