// Strategic merge: the patch is a mapping with the structure of the document.

#include <algorithm>

#include "common/text/foreign-text.h"
#include "talosctl/config/patch-value.h"

namespace talos::patch {
namespace {

using codec::Entry;

constexpr kj::StringPtr kDirective = "$patch"_kj, kItem = "[]"_kj;

// The present place in the document. The key of a list item is "[]".
struct Path {
  const Path* parent;
  kj::StringPtr key;

  kj::String toString() const {
    if (parent == nullptr) return kj::str(key);
    return key == kItem ? kj::str(parent->toString(), key) : kj::str(parent->toString(), ".", key);
  }

  // `dotted`: all keys with dots between them, the items of a list as "[]".
  bool is(kj::StringPtr dotted) const {
    size_t end = dotted.size();
    for (auto* step = this;; step = step->parent) {
      size_t size = step->key.size();
      if (size > end || dotted.slice(end - size, end) != step->key.asArray()) return false;
      end -= size;
      if (step->parent == nullptr) return end == 0;
      if (end == 0) return false;
      --end;
      if (dotted[end] != '.') return false;
    }
  }

  std::vector<kj::StringPtr> keys() const {
    std::vector<kj::StringPtr> result;
    for (auto* step = this; step != nullptr; step = step->parent) result.push_back(step->key);
    std::reverse(result.begin(), result.end());
    return result;
  }

  bool isInItem() const {
    for (auto* step = this; step != nullptr; step = step->parent) {
      if (step->key == kItem) return true;
    }
    return false;
  }
};

enum class MergeBy {
  kKey,      // an item merges into the item with the same key; other items are appended
  kNewItem,  // an item replaces the item with the same key; other items are appended
  kNewValue  // the list or mapping is replaced; an empty list counts, an empty mapping does not
};

// Lists and mappings that have other rules: lists are appended to, mappings merge key by key.
struct MergeRule {
  kj::StringPtr kind;  // kind of the document; "" for the machine config
  kj::StringPtr path;
  MergeBy by;
  kj::StringPtr key = ""_kj;
  kj::StringPtr otherKey = ""_kj;  // key of items without the first key
};
constexpr MergeRule kMergeRules[] = {
    {""_kj, "machine.network.interfaces"_kj, MergeBy::kKey, "interface"_kj, "deviceSelector"_kj},
    {""_kj, "machine.network.interfaces.[].vlans"_kj, MergeBy::kKey, "vlanId"_kj},
    {""_kj, "cluster.apiServer.admissionControl"_kj, MergeBy::kKey, "name"_kj},
    {""_kj, "cluster.apiServer.auditPolicy"_kj, MergeBy::kNewValue},
    {""_kj, "cluster.network.podSubnets"_kj, MergeBy::kNewValue},
    {""_kj, "cluster.network.serviceSubnets"_kj, MergeBy::kNewValue},
    {"ExtensionServiceConfig"_kj, "configFiles"_kj, MergeBy::kKey, "mountPath"_kj},
    {"ImageVerificationConfig"_kj, "rules"_kj, MergeBy::kNewItem, "image"_kj},
    {"NetworkRuleConfig"_kj, "portSelector.ports"_kj, MergeBy::kNewValue},
    {"NetworkRuleConfig"_kj, "ingress"_kj, MergeBy::kNewValue},
    {"BGPInstanceConfig"_kj, "advertise"_kj, MergeBy::kNewValue},
    {"BGPInstanceConfig"_kj, "importRoutes"_kj, MergeBy::kNewValue},
    {"BGPInstanceConfig"_kj, "neighbors"_kj, MergeBy::kNewValue},
    {"CRIBaseRuntimeSpecConfig"_kj, "overrides"_kj, MergeBy::kNewValue},
    {"KubeAuditPolicyConfig"_kj, "configuration"_kj, MergeBy::kNewValue},
    {"KubeAuthenticationConfig"_kj, "configuration"_kj, MergeBy::kNewValue},
    {"KubeCredentialProviderConfig"_kj, "configuration"_kj, MergeBy::kNewValue},
    {"KubeNetworkConfig"_kj, "podSubnets"_kj, MergeBy::kNewValue},
    {"KubeNetworkConfig"_kj, "serviceSubnets"_kj, MergeBy::kNewValue},
    {"KubeStaticPodConfig"_kj, "pod"_kj, MergeBy::kNewValue},
};

// Mappings from any key to a text: 0 is a text as any other, and a key with an empty text exists.
constexpr kj::StringPtr kTextMaps[] = {
    "annotations"_kj,     "env"_kj,        "extraArgs"_kj,  "headers"_kj, "labels"_kj,
    "nodeAnnotations"_kj, "nodeLabels"_kj, "nodeTaints"_kj, "params"_kj,  "sysctls"_kj,
    "sysfs"_kj,           "taints"_kj,     "variables"_kj};
// Mappings with any content: a key with an empty value exists.
constexpr kj::StringPtr kFreeContent[] = {
    "auditPolicy"_kj, "baseRuntimeSpecOverrides"_kj, "config"_kj,    "configuration"_kj,
    "extraConfig"_kj, "credentialProviderConfig"_kj, "overrides"_kj, "pod"_kj,
    "pods"_kj,        "seccompProfiles"_kj};
// Durations: 0s is the value of an absent key.
constexpr kj::StringPtr kDurations[] = {"bootTimeout"_kj, "certLifetime"_kj};

bool isOneOf(kj::ArrayPtr<const kj::StringPtr> names, kj::StringPtr key) {
  for (auto& name : names) {
    if (name == key) return true;
  }
  return false;
}

bool isValueOfTextMap(const Path& path) {
  return path.parent != nullptr && isOneOf(kTextMaps, path.parent->key);
}

// Returns true if the key exists with an empty value too.
bool isFreeKey(const Path& path) {
  for (auto* step = path.parent; step != nullptr; step = step->parent) {
    if (isOneOf(kTextMaps, step->key) || isOneOf(kFreeContent, step->key)) return true;
  }
  return false;
}

const Entry* entryOf(const YamlNode& node, kj::StringPtr key) {
  for (auto& entry : node.entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

bool isMarked(const YamlNode& node) {
  return entryOf(node, kDirective) != nullptr;
}

// Removes the keys of a mapping that have no value.
void dropNulls(Value& value) {
  if (value.kind != Kind::kMapping) return;
  std::erase_if(value.members, [](const Member& m) { return m.value->kind == Kind::kNull; });
}

// Returns true if an item with this key is the wanted one. `wanted` has no keys without a value.
bool isSameKey(const Value& key, const Value& wanted) {
  if (key.kind != Kind::kMapping) {
    bool scalars = key.kind == Kind::kScalar && wanted.kind == Kind::kScalar;
    return isEqual(key, wanted) || (scalars && key.text == wanted.text);
  }
  auto filled = clone(key);
  dropNulls(*filled);
  return isEqual(*filled, wanted);
}

// Returns true if the node is marked with `$patch: delete`; refuses any other `$patch`.
bool deletes(const YamlNode& node, const Path& path) {
  auto* mark = entryOf(node, kDirective);
  if (mark == nullptr) return false;
  if (mark->value->kind == Kind::kScalar && mark->value->text == "delete") return true;
  throw Refusal{mark->place, path.toString(), kj::str("not a valid $patch"),
                kj::str("use \"delete\", or leave it out to merge the mapping")};
}

[[noreturn]] void refuseMissing(codec::Place place, const Path& path, kj::StringPtr cause) {
  throw Refusal{place, path.toString(), kj::str("nothing to delete: ", cause),
                kj::str("correct it, or remove it from the patch")};
}

void requireMapping(const Value& document, const YamlNode& patch) {
  if (document.kind == Kind::kMapping) return;
  throw Refusal{patch.place, kj::str(),
                kj::str("cannot merge into the document: it is not a mapping"), kj::str()};
}

class Merger {
 public:
  Merger(kj::StringPtr kind, Budget& budget, kj::Maybe<LeftOutKeys&> leftOut = nullptr)
      : kind(kind), budget(budget), leftOut(leftOut) {}

  // Removes from `target` everything that the patch marks. Both must be mappings.
  void removeMarked(Value& target, const YamlNode& patch, const Path* path) {
    for (auto& entry : patch.entries) {
      auto* mark = markIn(*entry.value);
      if (mark == nullptr) continue;
      Path below{path, entry.key};
      bool removes = deletes(*entry.value, below);
      budget.spend(target.members.size() + 1);
      KJ_IF_MAYBE (index, find(target, entry.key)) {
        target.touched = true;
        if (removes) {
          target.members.erase(target.members.begin() + *index);
        } else {
          removeBelow(*target.members[*index].value, *entry.value, below, *mark);
        }
      } else if (!warnIfLeftOut(entry, below)) {
        refuseMissing(removes ? entry.place : mark->place, below, "there is no such key");
      }
    }
  }

  // Merges what the patch does not mark. `target` must be a mapping.
  void mergeMapping(Value& target, const YamlNode& patch, const Path* path) {
    target.touched = true;
    for (auto& entry : patch.entries) {
      if (entry.key == kDirective || leavesNothing(*entry.value)) continue;
      Path below{path, entry.key};
      budget.spend(target.members.size() + 1);
      KJ_IF_MAYBE (index, find(target, entry.key)) {
        mergeValue(target.members[*index].value, *entry.value, below);
      } else if (!isEmptyScalar(*entry.value, below) || isFreeKey(below)) {
        target.members.push_back({entry.key, create(*entry.value, below)});
      }
    }
  }

  // Removes marked parts from a new document, and the parents that they leave empty. Returns true
  // if there were any.
  bool dropMarked(Value& value, const Path* path) {
    bool dropped = false;
    auto& members = value.members;
    for (size_t i = 0; i < members.size();) {
      auto& below = *members[i].value;
      Path place{path, value.kind == Kind::kSequence ? kItem : members[i].key};
      bool gone = deletes(*below.origin, place);
      if (!gone && dropMarked(below, &place)) {
        dropped = true;
        gone = below.members.empty();
      }
      if (!gone) {
        ++i;
        continue;
      }
      budget.spend(members.size() - i);
      members.erase(members.begin() + i);
      dropped = true;
    }
    value.touched = value.touched || dropped;
    return dropped;
  }

 private:
  kj::StringPtr kind;
  Budget& budget;
  kj::Maybe<LeftOutKeys&> leftOut;

  // Returns false, without a warning, if a generated document cannot lack everything that the entry
  // marks.
  bool warnIfLeftOut(const Entry& entry, const Path& path) {
    KJ_IF_MAYBE (keys, leftOut) {
      if (!marksOnly(*keys, *entry.value, path)) return false;
      keys->warn(entry.place, path.toString());
      return true;
    }
    return false;
  }

  // Returns true if all that is marked in the node are keys of `known`, or items of their lists.
  bool marksOnly(const LeftOutKeys& known, const YamlNode& node, const Path& path) {
    budget.spend(1);
    if (deletes(node, path)) {
      auto keys = path.keys();
      return known.has(kj::arrayPtr(keys.data(), keys.size()));
    }
    for (auto& entry : node.entries) {
      if (!marksOnly(known, *entry.value, {&path, entry.key})) return false;
    }
    for (auto* item : node.items) {
      if (!marksOnly(known, *item, {&path, kItem})) return false;
    }
    return true;
  }

  // Returns the first directive in the node, or nullptr.
  const Entry* markIn(const YamlNode& node) {
    budget.spend(1);
    for (auto& entry : node.entries) {
      if (entry.key == kDirective) return &entry;
      if (auto* below = markIn(*entry.value)) return below;
    }
    for (auto* item : node.items) {
      if (auto* below = markIn(*item)) return below;
    }
    return nullptr;
  }

  // Returns true if the node is marked, or if all that is in it is: then it has nothing to merge.
  bool leavesNothing(const YamlNode& node) {
    budget.spend(1);
    if (isMarked(node)) return true;
    for (auto& entry : node.entries) {
      if (!leavesNothing(*entry.value)) return false;
    }
    for (auto* item : node.items) {
      if (!leavesNothing(*item)) return false;
    }
    return node.entries.size() + node.items.size() > 0;
  }

  void removeBelow(Value& target, const YamlNode& patch, const Path& path, const Entry& mark) {
    if (patch.kind == Kind::kMapping && target.kind == Kind::kMapping) {
      removeMarked(target, patch, &path);
    } else if (patch.kind == Kind::kSequence && target.kind == Kind::kSequence) {
      removeItems(target, patch, path);
    } else {
      refuseMissing(mark.place, path,
                    patch.kind == Kind::kSequence ? "this is not a list" : "this is not a mapping");
    }
  }

  void removeItems(Value& target, const YamlNode& patch, const Path& path) {
    target.touched = true;
    for (auto* item : patch.items) {
      auto* mark = markIn(*item);
      if (mark == nullptr) continue;
      Path below{&path, kItem};
      if (deletes(*item, below)) {
        size_t index = selected(target, *item, path);
        target.members.erase(target.members.begin() + index);
      } else {
        requireMerge(below, *mark);
        KJ_IF_MAYBE (index, matching(target, *item, ruleFor(path))) {
          removeBelow(*target.members[*index].value, *item, below, *mark);
        } else {
          refuseMissing(mark->place, path, "the list has no such item");
        }
      }
    }
  }

  // Refuses to delete a part of an item that is replaced as a whole.
  void requireMerge(const Path& item, const Entry& mark) const {
    KJ_IF_MAYBE (rule, ruleFor(*item.parent)) {
      if (rule->by != MergeBy::kNewItem) return;
      throw Refusal{mark.place, item.toString(),
                    kj::str("cannot delete a part of an item that the patch replaces"),
                    kj::str("write the item without this part")};
    }
  }

  // Returns the item that a marked item of the patch names by its key, or else by its first entry.
  size_t selected(const Value& list, const YamlNode& item, const Path& path) {
    const Entry* selector = nullptr;
    KJ_IF_MAYBE (rule, ruleFor(path)) selector = keyOf(item, *rule);
    for (auto& entry : item.entries) {
      if (selector == nullptr && entry.key != kDirective) selector = &entry;
    }
    if (selector == nullptr) {
      throw Refusal{item.place, path.toString(),
                    kj::str("cannot delete from this list: the entry does not name an item"),
                    kj::str("add a key of the item, such as name: VALUE")};
    }
    KJ_IF_MAYBE (index, itemWith(list, *selector)) return *index;
    refuseMissing(item.place, path,
                  kj::str("no item of the list has this ", jsonString(selector->key)));
  }

  kj::Maybe<const MergeRule&> ruleFor(const Path& path) const {
    for (auto& rule : kMergeRules) {
      if (rule.kind == kind && path.is(rule.path)) return rule;
    }
    return nullptr;
  }

  // Returns the entry by which an item merges; nullptr if the item lacks such an entry.
  const Entry* keyOf(const YamlNode& item, const MergeRule& rule) {
    for (auto key : {rule.key, rule.otherKey}) {
      if (key.size() == 0) continue;
      auto* entry = entryOf(item, key);
      if (entry == nullptr || entry->value->kind == Kind::kNull) continue;
      if (entry->value->kind != Kind::kScalar || entry->value->text.size() > 0) return entry;
    }
    return nullptr;
  }

  kj::Maybe<size_t> matching(const Value& list, const YamlNode& item,
                             kj::Maybe<const MergeRule&> rule) {
    KJ_IF_MAYBE (r, rule) {
      if (auto* key = keyOf(item, *r)) return itemWith(list, *key);
    }
    return nullptr;
  }

  // Returns the first item with an equal entry; texts and numbers are equal if they look alike, and
  // a key without a value counts as an absent one.
  kj::Maybe<size_t> itemWith(const Value& list, const Entry& entry) {
    auto wanted = valueOf(*entry.value);
    dropNulls(*wanted);
    for (size_t i = 0; i < list.members.size(); ++i) {
      auto& candidate = *list.members[i].value;
      budget.spend(candidate.members.size() + 1);
      if (candidate.kind != Kind::kMapping) continue;
      KJ_IF_MAYBE (index, find(candidate, entry.key)) {
        auto& value = *candidate.members[*index].value;
        budget.spend(value.size() + wanted->members.size());
        if (isSameKey(value, *wanted)) return i;
      }
    }
    return nullptr;
  }

  // Returns true if 0 is not the value of an absent key.
  bool isZeroAValue(const Path& path) const {
    bool number = kind == "BondConfig" || kind == "EthernetConfig" || path.key == "routePriority";
    bool kubespan =
        kind == "KubeSpanConfig" || (path.parent != nullptr && path.parent->key == "kubespan");
    return path.key == "mtu" ? kubespan : number;
  }

  // Returns true for a value that an absent key has: it does not replace another value.
  bool isEmptyScalar(const YamlNode& node, const Path& path) const {
    if (node.kind == Kind::kNull) return true;
    if (node.kind != Kind::kScalar) return false;
    if (node.text.size() == 0) return true;
    if (!node.plain || isValueOfTextMap(path)) return false;
    if (codec::scalarType(node.text) == codec::ScalarType::kInteger) {
      KJ_IF_MAYBE (integer, codec::parseInteger(node.text))
        return integer->magnitude == 0 && !isZeroAValue(path);
      return false;
    }
    if (!isOneOf(kDurations, path.key) || node.text[0] != '0') return false;
    for (char c : node.text) {
      if ((c >= '1' && c <= '9') || c == '.') return false;
    }
    return true;
  }

  bool isEmpty(const YamlNode& node, const Path& path) const {
    bool collection = node.kind == Kind::kMapping || node.kind == Kind::kSequence;
    return collection ? node.entries.empty() && node.items.empty() : isEmptyScalar(node, path);
  }

  // Creates a new value from what is not marked. Items with the same key become one item.
  kj::Own<Value> create(const YamlNode& patch, const Path& path) {
    auto rule = ruleFor(path);
    bool hasKeys = false;
    KJ_IF_MAYBE (r, rule) hasKeys = r->by != MergeBy::kNewValue;
    if (!hasKeys || patch.kind != Kind::kSequence) return make(patch, path);
    auto list = kj::heap<Value>();
    list->kind = Kind::kSequence;
    mergeList(*list, patch, path, rule);
    return list;
  }

  // Creates a new value in which each item is kept as it is.
  kj::Own<Value> make(const YamlNode& patch, const Path& path) {
    budget.spend(1);
    auto value = kj::heap<Value>();
    value->kind = patch.kind;
    value->plain = patch.plain;
    value->text = patch.text;
    value->touched = true;
    if (patch.kind == Kind::kMapping && !path.isInItem()) {
      mergeMapping(*value, patch, &path);
      return value;
    }
    // An item is new as a whole, and keeps all that is written in it.
    for (auto& entry : patch.entries) {
      Path below{&path, entry.key};
      if (entry.key != kDirective && !leavesNothing(*entry.value))
        value->members.push_back({entry.key, make(*entry.value, below)});
    }
    for (auto* item : patch.items) {
      Path below{&path, kItem};
      if (!leavesNothing(*item)) value->members.push_back({"", make(*item, below)});
    }
    return value;
  }

  void mergeValue(kj::Own<Value>& target, const YamlNode& patch, const Path& path) {
    auto rule = ruleFor(path);
    bool replaces = false;
    KJ_IF_MAYBE (r, rule) replaces = r->by == MergeBy::kNewValue;
    bool isNewList = replaces && patch.kind == Kind::kSequence;
    if (isEmpty(patch, path) && !isNewList) return;
    bool isArgument = path.parent != nullptr && path.parent->key == "extraArgs";
    bool merges = !replaces && !isArgument && patch.kind == target->kind;
    if (merges && patch.kind == Kind::kMapping) {
      mergeMapping(*target, patch, &path);
    } else if (merges && patch.kind == Kind::kSequence) {
      mergeList(*target, patch, path, rule);
    } else {
      target = create(patch, path);
    }
  }

  void mergeList(Value& target, const YamlNode& patch, const Path& path,
                 kj::Maybe<const MergeRule&> rule) {
    target.touched = true;
    auto& members = target.members;
    bool replaces = false;
    KJ_IF_MAYBE (r, rule) replaces = r->by == MergeBy::kNewItem;
    for (auto* item : patch.items) {
      if (leavesNothing(*item)) continue;
      Path below{&path, kItem};
      KJ_IF_MAYBE (index, matching(target, *item, rule)) {
        auto& found = members[*index].value;
        if (replaces) {
          found = make(*item, below);
        } else {
          mergeValue(found, *item, below);
        }
      } else {
        members.push_back({"", make(*item, below)});
      }
    }
  }
};

}  // namespace

bool deletesDocument(const YamlNode& patch) {
  return deletes(patch, Path{nullptr, ""});
}

void removeMarked(Value& document, const YamlNode& patch, kj::StringPtr kind, Budget& budget,
                  kj::Maybe<LeftOutKeys&> leftOut) {
  requireMapping(document, patch);
  Merger(kind, budget, leftOut).removeMarked(document, patch, nullptr);
}

void mergeDocument(Value& document, const YamlNode& patch, kj::StringPtr kind, Budget& budget) {
  requireMapping(document, patch);
  Merger(kind, budget).mergeMapping(document, patch, nullptr);
}

bool dropMarked(Value& document, Budget& budget) {
  return Merger("", budget).dropMarked(document, nullptr);
}

}  // namespace talos::patch
