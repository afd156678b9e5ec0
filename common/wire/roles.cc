#include "common/wire/roles.h"

#include <capnp/membrane.h>
#include <kj/debug.h>

#include <algorithm>

#include "common/base/annotation.h"
#include "common/base/error.h"
#include "common/base/node-messages.h"

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

bool hasCapability(capnp::StructSchema schema) {
  for (auto field : schema.getFields()) {
    auto type = field.getType();
    while (type.isList()) type = type.asList().getElementType();
    if (type.isInterface()) return true;
  }
  return false;
}

Rules::Rule ruleOf(kj::StringPtr interface, capnp::InterfaceSchema::Method method) {
  Rules::Rule rule{.method = kj::str(interface, '.', method.getProto().getName()),
                   .needed = neededBy(method),
                   .maintenance = annotation::has(method, annotation::kMaintenance),
                   .audit = annotation::has(method, annotation::kAudit),
                   .returnsCapability = hasCapability(method.getResultType()),
                   .takesCapability = hasCapability(method.getParamType()),
                   .params = method.getParamType()};
  KJ_REQUIRE(!rule.audit || !rule.returnsCapability,
             "an audited method returns a capability, which no membrane would hold", rule.method);
  return rule;
}

Rules::Rule copyOf(const Rules::Rule& rule) {
  return {.method = kj::str(rule.method),
          .needed = kj::str(rule.needed),
          .maintenance = rule.maintenance,
          .audit = rule.audit,
          .returnsCapability = rule.returnsCapability,
          .takesCapability = rule.takesCapability,
          .params = rule.params};
}

// Redirects a call that is recorded or refused; returns nullptr if the call goes to its target. A
// membrane does not hold the calls that it redirects, so the call holds its policy, and with it
// everything that the policy holds until the call ends, even if its caller has dropped everything
// else.
kj::Maybe<capnp::Capability::Client> redirect(capnp::MembranePolicy& policy,
                                              const Rules::Rule& rule,
                                              capnp::Capability::Client target,
                                              kj::Maybe<kj::Own<AuditTrail>>& trail,
                                              kj::Maybe<kj::Exception> refusal) {
  KJ_IF_MAYBE (t, trail) {
    KJ_IF_MAYBE (params, rule.params) {
      if (rule.audit) {
        return audited(kj::mv(target), kj::str(rule.method), *params,
                       (*t)->addRef().attach(policy.addRef()), kj::mv(refusal));
      }
    }
  }
  // Returns a broken capability instead of throwing: the call fails, not its connection.
  KJ_IF_MAYBE (e, refusal) return capnp::Capability::Client(kj::mv(*e));
  return nullptr;
}

class Policy final : public capnp::MembranePolicy, public kj::Refcounted {
 public:
  Policy(const Rules& rules, kj::Array<kj::String> held, Denied denied,
         kj::Maybe<kj::Own<AuditTrail>> trail)
      : rules(rules), held(kj::mv(held)), denied(kj::mv(denied)), trail(kj::mv(trail)) {}

  kj::Maybe<capnp::Capability::Client> inboundCall(uint64_t interfaceId, uint16_t methodId,
                                                   capnp::Capability::Client target) override {
    auto rule = rules.find(interfaceId, methodId);
    if (permits(held, rule.needed)) return redirect(*this, rule, kj::mv(target), trail, nullptr);
    denied(rule.method, rule.needed);
    return redirect(*this, rule, kj::mv(target), trail, roleMissing(rule, held));
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
  kj::Maybe<kj::Own<AuditTrail>> trail;
};

class MaintenancePolicy final : public capnp::MembranePolicy, public kj::Refcounted {
 public:
  MaintenancePolicy(const Rules& rules, kj::Function<bool()> inMaintenance, Denied denied,
                    kj::Maybe<kj::Own<AuditTrail>> trail)
      : rules(rules),
        inMaintenance(kj::mv(inMaintenance)),
        denied(kj::mv(denied)),
        trail(kj::mv(trail)) {}

  kj::Maybe<capnp::Capability::Client> inboundCall(uint64_t interfaceId, uint16_t methodId,
                                                   capnp::Capability::Client target) override {
    auto rule = rules.find(interfaceId, methodId);
    if (!inMaintenance()) {
      return refuse(rule, kj::mv(target), ErrorKind::kUnauthenticated,
                    "this node has a config now; connect with a client certificate");
    }
    if (rule.maintenance) return redirect(*this, rule, kj::mv(target), trail, nullptr);
    return refuse(rule, kj::mv(target), ErrorKind::kUnimplemented,
                  kj::str(rule.method, messages::kInMaintenance));
  }

  kj::Maybe<capnp::Capability::Client> outboundCall(uint64_t, uint16_t,
                                                    capnp::Capability::Client) override {
    return nullptr;  // the caller's own capabilities
  }

  kj::Own<capnp::MembranePolicy> addRef() override { return kj::addRef(*this); }

 private:
  const Rules& rules;
  kj::Function<bool()> inMaintenance;
  Denied denied;
  kj::Maybe<kj::Own<AuditTrail>> trail;

  kj::Maybe<capnp::Capability::Client> refuse(const Rules::Rule& rule,
                                              capnp::Capability::Client target, ErrorKind kind,
                                              kj::StringPtr message) {
    denied(rule.method, "maintenance");
    return redirect(*this, rule, kj::mv(target), trail, error(kind, message));
  }
};

}  // namespace

kj::ArrayPtr<const kj::StringPtr> clientRoles() {
  static constexpr kj::StringPtr kRoles[] = {kRoleAdmin, kRoleOperator, kRoleReader,
                                             kRoleEtcdBackup};
  return kRoles;
}

void checkClientRoles(kj::ArrayPtr<const kj::String> roles, kj::StringPtr what) {
  for (auto& role : roles) {
    bool known = false;
    for (auto& one : clientRoles()) known = known || one == role;
    if (known) continue;
    fail(ErrorKind::kInvalidArgument, kj::str(what, ": \"", role, "\" is not a valid role; use ",
                                              kj::strArray(clientRoles(), ", ")));
  }
}

bool permits(kj::ArrayPtr<const kj::String> held, kj::StringPtr needed) {
  constexpr kj::StringPtr kOr = " or "_kj;
  KJ_IF_MAYBE (blank, needed.findFirst(' ')) {
    KJ_REQUIRE(needed.slice(*blank).startsWith(kOr), "not a role", needed);
    return permits(held, kj::str(needed.slice(0, *blank))) ||
           permits(held, needed.slice(*blank + kOr.size()));
  }
  for (auto& role : held) {
    if (role == needed || role == kRoleAdmin) return true;
    if (role == kRoleOperator && needed == kRoleReader) return true;
  }
  return false;
}

kj::Exception roleMissing(const Rules::Rule& rule, kj::ArrayPtr<const kj::String> held) {
  return error(ErrorKind::kPermissionDenied,
               kj::str(rule.method, messages::kNeedsRole, rule.needed, "; this caller has ",
                       held.size() == 0 ? kj::str("none") : kj::strArray(held, ", ")));
}

Rules::Rules(capnp::InterfaceSchema root) {
  add(root);
}

void Rules::add(capnp::InterfaceSchema schema) {
  auto id = schema.getProto().getId();
  if (byInterface.find(id) != nullptr) return;
  auto& rules = byInterface.insert(id, {}).value;
  for (auto method : schema.getMethods()) {
    rules.add(ruleOf(shortName(schema), method));
  }
  kj::TreeSet<uint64_t> visited;
  for (auto method : schema.getMethods()) {
    addMentioned(method.getParamType(), visited);
    addMentioned(method.getResultType(), visited);
  }
  for (auto parent : schema.getSuperclasses()) add(parent);
}

void Rules::addMentioned(capnp::StructSchema schema, kj::TreeSet<uint64_t>& visited) {
  auto id = schema.getProto().getId();
  if (visited.find(id) != nullptr) return;
  visited.insert(id);
  for (auto field : schema.getFields()) {
    auto type = field.getType();
    while (type.isList()) type = type.asList().getElementType();
    if (type.isInterface()) add(type.asInterface());
    if (type.isStruct()) addMentioned(type.asStruct(), visited);
  }
}

Rules::Rule Rules::find(uint64_t interfaceId, uint16_t methodId) const {
  KJ_IF_MAYBE (rules, byInterface.find(interfaceId)) {
    if (methodId < rules->size()) {
      return copyOf((*rules)[methodId]);
    }
  }
  return {.method = kj::str("method ", methodId, " of interface 0x", kj::hex(interfaceId)),
          .needed = kj::str(kRoleAdmin),
          .maintenance = false,
          .audit = false,
          .returnsCapability = false,
          .takesCapability = false,
          .params = nullptr};
}

kj::Vector<Rules::Rule> Rules::all() const {
  kj::Vector<Rule> result;
  for (auto& entry : byInterface) {
    for (auto& rule : entry.value) {
      result.add(copyOf(rule));
    }
  }
  std::sort(result.begin(), result.end(),
            [](const Rule& a, const Rule& b) { return a.method < b.method; });
  return result;
}

capnp::Capability::Client attenuate(const Rules& rules, capnp::Capability::Client inner,
                                    kj::Array<kj::String> held, Denied denied,
                                    kj::Maybe<kj::Own<AuditTrail>> trail) {
  return capnp::membrane(
      kj::mv(inner), kj::refcounted<Policy>(rules, kj::mv(held), kj::mv(denied), kj::mv(trail)));
}

capnp::Capability::Client attenuateToMaintenance(const Rules& rules,
                                                 capnp::Capability::Client inner,
                                                 kj::Function<bool()> inMaintenance, Denied denied,
                                                 kj::Maybe<kj::Own<AuditTrail>> trail) {
  return capnp::membrane(
      kj::mv(inner), kj::refcounted<MaintenancePolicy>(rules, kj::mv(inMaintenance), kj::mv(denied),
                                                       kj::mv(trail)));
}

}  // namespace talos
