#include "common/wire/resource-registry.h"

#include <algorithm>

#include "common/base/annotation.h"
#include "common/base/error.h"
#include "common/text/ascii.h"
#include "common/text/texts.h"
#include "rpc/access-resources.capnp.h"
#include "rpc/all-resources.h"
#include "rpc/annotations.capnp.h"
#include "rpc/feature-resources.capnp.h"
#include "rpc/hardware-resources.capnp.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/metrics-resources.capnp.h"

namespace talos {
namespace {

kj::String upperCase(kj::StringPtr text) {
  auto out = kj::heapString(text);
  for (char& c : out) {
    if (isLower(c)) c -= 'a' - 'A';
  }
  return out;
}

// Handles English plurals as they occur in type names: Statuses, Addresses, Policies, Services.
kj::String singular(kj::StringPtr plural) {
  auto without = [&](size_t n) {
    return kj::heapString(plural.asArray().slice(0, plural.size() - n));
  };
  for (auto ending : {"sses"_kj, "uses"_kj, "xes"_kj, "ches"_kj, "shes"_kj}) {
    if (plural.endsWith(ending)) return without(2);
  }
  if (plural.endsWith("ies")) return kj::str(without(3), "y");
  if (plural.endsWith("s") && !plural.endsWith("ss")) return without(1);
  return kj::str(plural);
}

// Returns true for [A-Z][A-Za-z0-9-]+ , then labels of [a-z][a-z0-9-]+ joined by dots.
bool wellFormed(kj::StringPtr type) {
  size_t dot = type.findFirst('.').orDefault(0);
  if (dot < 2 || !isUpper(type[0])) return false;
  for (char c : type.slice(0, dot)) {
    if (!isUpper(c) && !isLower(c) && !isDigit(c) && c != '-') return false;
  }
  size_t labelLength = 0;
  for (char c : type.slice(dot + 1)) {
    if (c == '.') {
      if (labelLength < 2) return false;
      labelLength = 0;
    } else {
      if (!isLower(c) && (labelLength == 0 || (!isDigit(c) && c != '-'))) return false;
      ++labelLength;
    }
  }
  return labelLength >= 2;
}

constexpr kj::StringPtr kNamespaces[] = {
    "cluster"_kj,  "cluster-raw"_kj, "config"_kj,  "controlplane"_kj, "cri"_kj,
    "etcd"_kj,     "extras"_kj,      "files"_kj,   "hardware"_kj,     "k8s"_kj,
    "kubespan"_kj, "meta"_kj,        "network"_kj, "runtime"_kj,      "secrets"_kj};
constexpr kj::StringPtr kDescriptions[] = {
    "The nodes of the cluster."_kj,
    "Nodes as registries of a cluster know them."_kj,
    "Machine configuration and what follows from it."_kj,
    "State of the Kubernetes control plane on this node."_kj,
    "Containers and their images."_kj,
    "etcd of this node and its cluster."_kj,
    "Manifests that were downloaded."_kj,
    "Files that the node writes."_kj,
    "The machine's hardware."_kj,
    "Kubernetes on this node, for clients of Talos."_kj,
    "The network between the nodes of a cluster."_kj,
    "Definitions of namespaces and resource types."_kj,
    "Desired and observed state of the network."_kj,
    "The machine, its services and its clock."_kj,
    "Secret material."_kj,
};
static_assert(kj::size(kNamespaces) == kj::size(kDescriptions));

// Documented aliases that would be ambiguous by the derivation rules; they count as explicit.
const struct {
  capnp::StructSchema schema;
  kj::StringPtr alias;
} kDocumentedAliases[] = {
    {capnp::Schema::from<rpc::StaticPodSpec>(), "sps"_kj},
    {capnp::Schema::from<rpc::SecretStatusSpec>(), "ss"_kj},
};

void addType(kj::Vector<ResourceType>& all, capnp::StructSchema schema) {
  KJ_IF_MAYBE (value, annotation::find(schema, annotation::kResource)) {
    auto declared = value->getStruct().getAs<schema::ResourceType>();
    auto derived = deriveNames(declared.getType());
    auto& type = all.add();
    type.name = kj::str(declared.getType());
    type.displayName = kj::mv(derived.displayName);
    type.defaultNamespace = kj::str(declared.getNamespace());
    type.sensitive = declared.getSensitive();
    type.schema = schema;
    for (auto alias : declared.getAliases()) addOnce(type.aliases, lowerCase(alias));
    for (auto& documented : kDocumentedAliases) {
      if (documented.schema == schema) addOnce(type.aliases, kj::str(documented.alias));
    }
    type.explicitAliases = type.aliases.size();
    for (auto& alias : derived.aliases) addOnce(type.aliases, kj::mv(alias));
    for (auto field : schema.getFields()) {
      auto header = annotation::text(field, annotation::kColumn);
      if (header.size() > 0) type.columns.add(ResourceType::Column{upperCase(header), field});
    }
  }
}

}  // namespace

DerivedNames deriveNames(kj::StringPtr typeName) {
  if (!wellFormed(typeName)) {
    fail(
        ErrorKind::kInvalidArgument,
        kj::str("\"", typeName,
                "\" is not a valid name of a resource type; use CamelCaseNames.lower.case.suffix"));
  }
  size_t dot = KJ_ASSERT_NONNULL(typeName.findFirst('.'));
  auto name = kj::heapString(typeName.slice(0, dot));
  auto lower = lowerCase(name);
  auto suffix = typeName.slice(dot + 1);

  DerivedNames result;
  result.displayName = singular(name);
  addOnce(result.aliases, kj::str(lower));
  addOnce(result.aliases, lowerCase(result.displayName));
  for (size_t i = 0; i < suffix.size(); ++i) {
    if (suffix[i] == '.') addOnce(result.aliases, kj::str(lower, ".", suffix.slice(0, i)));
  }
  kj::Vector<char> capitals;
  for (char c : name) {
    if (isUpper(c)) capitals.add(c - 'A' + 'a');
  }
  if (capitals.size() > 1) {
    auto letters = kj::heapString(capitals.asPtr());
    addOnce(result.aliases, kj::str(letters));
    if (!letters.endsWith("s")) addOnce(result.aliases, kj::str(letters, "s"));
  }
  return result;
}

Registry::Registry() {
#define X(name) addType(all, capnp::Schema::from<rpc::name>());
#include "rpc/resource-list.h"
#undef X
  std::sort(all.begin(), all.end(),
            [](const ResourceType& a, const ResourceType& b) { return a.name < b.name; });
}

const ResourceType& Registry::find(kj::StringPtr nameOrAlias) const {
  auto wanted = lowerCase(nameOrAlias);
  kj::Vector<const ResourceType*> chosen, derived;
  for (auto& type : all) {
    bool isChosen = wanted == lowerCase(type.name), isDerived = false;
    for (size_t i = 0; i < type.aliases.size(); ++i) {
      if (type.aliases[i] == wanted) (i < type.explicitAliases ? isChosen : isDerived) = true;
    }
    if (isChosen) chosen.add(&type);
    if (isDerived) derived.add(&type);
  }
  auto& matches = chosen.size() > 0 ? chosen : derived;
  if (matches.size() == 1) return *matches[0];
  if (matches.size() > 1) {
    auto names = KJ_MAP(m, matches) {
      return kj::str(m->name);
    };
    fail(ErrorKind::kInvalidArgument,
         kj::str("resource type \"", nameOrAlias, "\" is ambiguous; use ",
                 kj::strArray(names, " or ")));
  }
  fail(ErrorKind::kNotFound,
       kj::str("resource type \"", nameOrAlias, "\" is not registered; `get rd` lists the types"));
}

kj::Maybe<const ResourceType&> Registry::byName(kj::StringPtr name) const {
  for (auto& type : all) {
    if (type.name == name) return type;
  }
  return nullptr;
}

kj::ArrayPtr<const kj::StringPtr> Registry::namespaces() {
  return kNamespaces;
}

kj::StringPtr Registry::describeNamespace(kj::StringPtr name) {
  for (size_t i = 0; i < kj::size(kNamespaces); ++i) {
    if (kNamespaces[i] == name) return kDescriptions[i];
  }
  return "";
}

}  // namespace talos
