// Strategic merge: the patch is a mapping with the structure of the document.

#include "talosctl/config/patch-value.h"

namespace talos::patch {
namespace {

constexpr kj::StringPtr kDirective = "$patch"_kj;

// The present place in the document. The key of a list item is "[]".
struct Path {
  const Path* parent;
  kj::StringPtr key;

  kj::String toString() const {
    if (parent == nullptr) return kj::str(key);
    return key == "[]" ? kj::str(parent->toString(), key) : kj::str(parent->toString(), ".", key);
  }
};

// Lists that are not simply appended to.
struct ListRule {
  std::initializer_list<kj::StringPtr> path;  // in reverse order
  kj::StringPtr name;  // key that identifies an item; empty: the list is replaced as a whole
};
constexpr ListRule kListRules[] = {
    {{"interfaces"_kj, "network"_kj, "machine"_kj}, "interface"_kj},
    {{"vlans"_kj, "[]"_kj, "interfaces"_kj, "network"_kj, "machine"_kj}, "vlanId"_kj},
    {{"podSubnets"_kj, "network"_kj, "cluster"_kj}, ""_kj},
    {{"serviceSubnets"_kj, "network"_kj, "cluster"_kj}, ""_kj},
};

kj::Maybe<const ListRule&> ruleFor(const Path* path) {
  for (auto& rule : kListRules) {
    auto* step = path;
    auto key = rule.path.begin();
    while (step != nullptr && key != rule.path.end() && step->key == *key)
      step = step->parent, ++key;
    if (step == nullptr && key == rule.path.end()) return rule;
  }
  return nullptr;
}

class Merger {
 public:
  explicit Merger(Budget& budget) : budget(budget) {}

  // `target` must be a mapping.
  void mergeMapping(Value& target, const YamlNode& patch, const Path* path) {
    target.touched = true;
    for (auto& entry : patch.entries) {
      if (entry.key == kDirective) continue;
      Path below{path, entry.key};
      budget.spend(target.members.size() + 1);
      auto found = find(target, entry.key);
      if (deletes(*entry.value, below)) {
        KJ_IF_MAYBE (index, found) target.members.erase(target.members.begin() + *index);
        continue;
      }
      KJ_IF_MAYBE (index, found) {
        mergeValue(target.members[*index].value, *entry.value, below);
      } else {
        target.members.push_back({entry.key, make(*entry.value, below)});
      }
    }
  }

  bool deletes(const YamlNode& node, const Path& path) {
    for (auto& entry : node.entries) {
      if (entry.key != kDirective) continue;
      if (entry.value->kind == Kind::kScalar && entry.value->text == "delete") return true;
      throw Refusal{entry.place, path.toString(), kj::str("not a valid $patch"),
                    kj::str("use \"delete\", or leave it out to merge the mapping")};
    }
    return false;
  }

 private:
  Budget& budget;

  // Creates a new value; directives in it have no effect.
  kj::Own<Value> make(const YamlNode& patch, const Path& path) {
    budget.spend(1);
    auto value = kj::heap<Value>();
    value->kind = patch.kind;
    value->plain = patch.plain;
    value->text = patch.text;
    value->touched = true;
    if (patch.kind == Kind::kMapping) mergeMapping(*value, patch, &path);
    for (auto* item : patch.items) {
      Path below{&path, "[]"};
      if (!deletes(*item, below)) value->members.push_back({"", make(*item, below)});
    }
    return value;
  }

  void mergeValue(kj::Own<Value>& target, const YamlNode& patch, const Path& path) {
    if (patch.kind == Kind::kMapping && target->kind == Kind::kMapping) {
      mergeMapping(*target, patch, &path);
    } else if (patch.kind == Kind::kSequence && target->kind == Kind::kSequence) {
      mergeList(target, patch, path);
    } else {
      target = make(patch, path);
    }
  }

  void mergeList(kj::Own<Value>& target, const YamlNode& patch, const Path& path) {
    kj::StringPtr name;
    KJ_IF_MAYBE (rule, ruleFor(&path)) {
      if (rule->name.size() == 0) {
        target = make(patch, path);
        return;
      }
      name = rule->name;
    }
    target->touched = true;
    auto& members = target->members;
    for (auto* item : patch.items) {
      Path below{&path, "[]"};
      bool removes = deletes(*item, below);
      KJ_IF_MAYBE (index, namedAlike(*target, *item, name)) {
        if (removes)
          members.erase(members.begin() + *index);
        else
          mergeValue(members[*index].value, *item, below);
      } else if (removes) {
        if (name.size() == 0) {
          throw Refusal{
              item->place, path.toString(),
              kj::str("cannot remove an item of this list by a merge: the items have no name"),
              kj::str("use a JSON Patch")};
        }
      } else {
        members.push_back({"", make(*item, below)});
      }
    }
  }

  // Finds the first item of `list` with the same name as `item`.
  kj::Maybe<size_t> namedAlike(const Value& list, const YamlNode& item, kj::StringPtr name) {
    if (name.size() == 0) return nullptr;
    for (auto& entry : item.entries) {
      if (entry.key != name || entry.value->kind != Kind::kScalar) continue;
      auto wanted = valueOf(*entry.value);
      for (size_t i = 0; i < list.members.size(); ++i) {
        auto& candidate = *list.members[i].value;
        budget.spend(candidate.members.size() + 1);
        if (candidate.kind != Kind::kMapping) continue;
        KJ_IF_MAYBE (index, find(candidate, name)) {
          if (isEqual(*candidate.members[*index].value, *wanted)) return i;
        }
      }
    }
    return nullptr;
  }
};

}  // namespace

void mergeDocument(kj::Own<Value>& document, const YamlNode& patch, Budget& budget) {
  Merger merger(budget);
  Path root{nullptr, ""};
  if (merger.deletes(patch, root)) {
    throw Refusal{patch.place, kj::str(), kj::str("cannot remove the whole document"), kj::str()};
  }
  if (document->kind != Kind::kMapping) {
    throw Refusal{patch.place, kj::str(),
                  kj::str("cannot merge into the document: it is not a mapping"), kj::str()};
  }
  merger.mergeMapping(*document, patch, nullptr);
}

}  // namespace talos::patch
