#include "machined/resources/resource-access.h"

#include "common/base/error.h"

namespace talos::machined {
namespace {

// A type, or one resource of it.
struct Readable {
  Readable(kj::StringPtr type, kj::StringPtr id = ""_kj) : type(type), id(id) {}
  kj::StringPtr type, id;
};

struct Row {
  unsigned uid;
  kj::StringPtr daemon;
  std::initializer_list<Readable> reads;
  std::initializer_list<kj::StringPtr> writes;
};

const Row kDaemons[] = {
    {50,
     "apid"_kj,
     {"ApiCertificates.secrets.talos.dev"_kj, "NodeAddresses.net.talos.dev"_kj,
      "HostnameSpecs.net.talos.dev"_kj, "JoinSpecs.secrets.talos.dev"_kj,
      "TimeStatuses.v1alpha1.talos.dev"_kj},
     {"ApiCertificates.secrets.talos.dev"_kj, "JoinStatuses.runtime.talos.dev"_kj}},
    {51,
     "trustd"_kj,
     {{"RootSecrets.secrets.talos.dev"_kj, "os"_kj},
      "NodeAddresses.net.talos.dev"_kj,
      "HostnameSpecs.net.talos.dev"_kj},
     {"IssuedCertificates.runtime.talos.dev"_kj}},
    {52,
     "networkd"_kj,
     {"LinkSpecs.net.talos.dev"_kj, "AddressSpecs.net.talos.dev"_kj, "RouteSpecs.net.talos.dev"_kj,
      "HostnameSpecs.net.talos.dev"_kj, "ResolverSpecs.net.talos.dev"_kj,
      "OperatorSpecs.net.talos.dev"_kj, "WireguardKeys.secrets.talos.dev"_kj},
     {"LinkPlans.net.talos.dev"_kj, "LinkStatuses.net.talos.dev"_kj,
      "AddressStatuses.net.talos.dev"_kj, "RouteStatuses.net.talos.dev"_kj,
      "RuleStatuses.net.talos.dev"_kj, "NeighbourStatuses.net.talos.dev"_kj,
      "NetworkStatuses.net.talos.dev"_kj, "NodeAddresses.net.talos.dev"_kj,
      "OperatorStatuses.net.talos.dev"_kj}},
};

}  // namespace

Access Access::all(kj::StringPtr who) {
  Access access(who);
  access.scope = Scope::kEverything;
  access.writesAll = true;
  return access;
}

Access Access::user(bool sensitive) {
  Access access(sensitive ? "os:admin"_kj : "os:reader"_kj);
  access.scope = sensitive ? Scope::kEverything : Scope::kInsensitive;
  return access;
}

Access Access::none(kj::StringPtr who) {
  return Access(who);
}

Access Access::ofUid(unsigned uid) {
  if (uid == 0) return all("uid 0");
  for (auto& row : kDaemons) {
    if (row.uid != uid) continue;
    Access access(kj::str(row.daemon, " (uid ", uid, ")"));
    for (auto& read : row.reads) access.allowRead("", read.type, read.id);
    for (auto type : row.writes) access.allowWrite(type);
    return access;
  }
  return Access(kj::str("uid ", uid));
}

void Access::allowRead(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id) {
  rules.add(Rule{Verb::kRead, kj::str(ns), kj::str(type), kj::str(id)});
}
void Access::allowWrite(kj::StringPtr type) {
  allowRead("", type);
  rules.add(Rule{Verb::kWrite, kj::str(), kj::str(type), kj::str()});
}
void Access::allowFinalizers(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id) {
  rules.add(Rule{Verb::kFinalizers, kj::str(ns), kj::str(type), kj::str(id)});
}

bool Access::permits(Verb verb, const ResourceType& type, kj::StringPtr ns,
                     kj::StringPtr id) const {
  for (auto& rule : rules) {
    if (rule.verb == verb && rule.type == type.name && (rule.ns.size() == 0 || rule.ns == ns) &&
        (rule.id.size() == 0 || rule.id == id)) {
      return true;
    }
  }
  return false;
}

void Access::refuse(kj::StringPtr verb, const ResourceType& type, kj::StringPtr id) const {
  fail(ErrorKind::kPermissionDenied,
       kj::str(who, " may not ", verb, " ", type.name, id.size() == 0 ? "" : "/", id));
}

void Access::requireRead(const ResourceType& type, kj::StringPtr ns, kj::StringPtr id) const {
  if (scope == Scope::kEverything || (scope == Scope::kInsensitive && !type.sensitive)) return;
  if (scope == Scope::kInsensitive) {
    fail(ErrorKind::kPermissionDenied, kj::str("reading ", type.name, " needs the role os:admin"));
  }
  if (!permits(Verb::kRead, type, ns, id)) refuse(id.size() == 0 ? "list"_kj : "read"_kj, type, id);
}

void Access::requireWrite(const ResourceType& type) const {
  if (writesAll || permits(Verb::kWrite, type, "", "")) return;
  refuse("write", type, "");
}

void Access::requireFinalizers(const ResourceType& type, kj::StringPtr ns, kj::StringPtr id) const {
  if (writesAll || permits(Verb::kFinalizers, type, ns, id)) return;
  refuse("change finalizers of", type, id);
}

Access Access::clone() const {
  Access copy(who);
  copy.scope = scope;
  copy.writesAll = writesAll;
  for (auto& r : rules) copy.rules.add(Rule{r.verb, kj::str(r.ns), kj::str(r.type), kj::str(r.id)});
  return copy;
}

}  // namespace talos::machined
