#include "common/roles.h"

#include <capnp/membrane.h>
#include <kj/debug.h>

#include <algorithm>

#include "common/annotation.h"
#include "common/error.h"

namespace talos {
namespace {

kj::StringPtr shortName(capnp::Schema schema) {
  kj::StringPtr name = schema.getProto().getDisplayName();  // rpc/machine.capnp:Machine
  return name.slice(schema.getProto().getDisplayNamePrefixLength());
}

kj::String neededBy(capnp::InterfaceSchema::Method method) {
  auto role = annotation::text(method, annotation::kAllow);
  return kj::str(role.size() == 0 ? kRoleAdmin : role);
}

bool servedInMaintenance(capnp::InterfaceSchema::Method method) {
  return annotation::has(method, annotation::kMaintenance);
}

class Policy final : public capnp::MembranePolicy, public kj::Refcounted {
 public:
  Policy(const Rules& rules, kj::Array<kj::String> held, Denied denied)
      : rules(rules), held(kj::mv(held)), denied(kj::mv(denied)) {}

  kj::Maybe<capnp::Capability::Client> inboundCall(uint64_t interfaceId, uint16_t methodId,
                                                   capnp::Capability::Client target) override {
    auto rule = rules.find(interfaceId, methodId);
    if (permits(held, rule.needed)) return nullptr;
    denied(rule.method, rule.needed);
    // A broken capability rather than a throw: the call fails, not the connection it came by.
    return capnp::Capability::Client(
        error(ErrorKind::kPermissionDenied,
              kj::str(rule.method, " needs the role ", rule.needed, "; this caller has ",
                      held.size() == 0 ? kj::str("none") : kj::strArray(held, ", "))));
  }

  kj::Maybe<capnp::Capability::Client> outboundCall(uint64_t, uint16_t,
                                                    capnp::Capability::Client) override {
    return nullptr;  // the caller's own capabilities
  }

  kj::Own<capnp::MembranePolicy> addRef() override { return kj::addRef(*this); }

 private:
  const Rules& rules;
  kj::Array<kj::String> held;
  Denied denied;
};

class MaintenancePolicy final : public capnp::MembranePolicy, public kj::Refcounted {
 public:
  MaintenancePolicy(const Rules& rules, kj::Function<bool()> open, Denied denied)
      : rules(rules), open(kj::mv(open)), denied(kj::mv(denied)) {}

  kj::Maybe<capnp::Capability::Client> inboundCall(uint64_t interfaceId, uint16_t methodId,
                                                   capnp::Capability::Client target) override {
    auto rule = rules.find(interfaceId, methodId);
    if (!open()) {
      return refuse(rule.method, ErrorKind::kUnauthenticated,
                    "this machine has a config now: connect again, with a client certificate");
    }
    if (rule.maintenance) return nullptr;
    return refuse(rule.method, ErrorKind::kUnimplemented,
                  kj::str(rule.method,
                          " is not served in maintenance mode: this machine has no "
                          "config yet"));
  }

  kj::Maybe<capnp::Capability::Client> outboundCall(uint64_t, uint16_t,
                                                    capnp::Capability::Client) override {
    return nullptr;  // the caller's own capabilities
  }

  kj::Own<capnp::MembranePolicy> addRef() override { return kj::addRef(*this); }

 private:
  const Rules& rules;
  kj::Function<bool()> open;
  Denied denied;

  capnp::Capability::Client refuse(kj::StringPtr method, ErrorKind kind, kj::StringPtr why) {
    denied(method, "maintenance");
    return capnp::Capability::Client(error(kind, why));
  }
};

}  // namespace

bool permits(kj::ArrayPtr<const kj::String> held, kj::StringPtr needed) {
  for (auto& role : held) {
    if (role == needed || role == kRoleAdmin) return true;
  }
  return false;
}

Rules::Rules(capnp::InterfaceSchema root) {
  add(root);
}

void Rules::add(capnp::InterfaceSchema schema) {
  auto id = schema.getProto().getId();
  if (byInterface.find(id) != nullptr) return;
  auto& rules = byInterface.insert(id, {}).value;
  for (auto method : schema.getMethods()) {
    rules.add(Rule{kj::str(shortName(schema), '.', method.getProto().getName()), neededBy(method),
                   servedInMaintenance(method)});
  }
  kj::TreeSet<uint64_t> seen;
  for (auto method : schema.getMethods()) {
    addMentioned(method.getParamType(), seen);
    addMentioned(method.getResultType(), seen);
  }
  for (auto parent : schema.getSuperclasses()) add(parent);
}

void Rules::addMentioned(capnp::StructSchema schema, kj::TreeSet<uint64_t>& seen) {
  auto id = schema.getProto().getId();
  if (seen.find(id) != nullptr) return;
  seen.insert(id);
  for (auto field : schema.getFields()) {
    auto type = field.getType();
    while (type.isList()) type = type.asList().getElementType();
    if (type.isInterface()) add(type.asInterface());
    if (type.isStruct()) addMentioned(type.asStruct(), seen);
  }
}

Rules::Rule Rules::find(uint64_t interfaceId, uint16_t methodId) const {
  KJ_IF_MAYBE (rules, byInterface.find(interfaceId)) {
    if (methodId < rules->size()) {
      auto& rule = (*rules)[methodId];
      return {kj::str(rule.method), kj::str(rule.needed), rule.maintenance};
    }
  }
  return {kj::str("method ", methodId, " of interface 0x", kj::hex(interfaceId)),
          kj::str(kRoleAdmin), false};
}

kj::Vector<Rules::Rule> Rules::all() const {
  kj::Vector<Rule> result;
  for (auto& entry : byInterface) {
    for (auto& rule : entry.value) {
      result.add(Rule{kj::str(rule.method), kj::str(rule.needed), rule.maintenance});
    }
  }
  std::sort(result.begin(), result.end(),
            [](const Rule& a, const Rule& b) { return a.method < b.method; });
  return result;
}

capnp::Capability::Client attenuate(const Rules& rules, capnp::Capability::Client inner,
                                    kj::Array<kj::String> held, Denied denied) {
  return capnp::membrane(kj::mv(inner),
                         kj::refcounted<Policy>(rules, kj::mv(held), kj::mv(denied)));
}

capnp::Capability::Client attenuateToMaintenance(const Rules& rules,
                                                 capnp::Capability::Client inner,
                                                 kj::Function<bool()> open, Denied denied) {
  return capnp::membrane(kj::mv(inner),
                         kj::refcounted<MaintenancePolicy>(rules, kj::mv(open), kj::mv(denied)));
}

}  // namespace talos
