// Roles as a membrane: a capability that lets through only the calls that a role may make.
//
// The role that a method needs is its $allow annotation in rpc/, read by reflection; a method
// without one needs os:admin, so a new method is never open by mistake. os:admin includes all
// others; os:operator includes os:reader; os:etcd:backup permits only its own methods and those
// that lead to them, since a backup holds every secret of the cluster. Any other organization that
// starts with "os:" gives no right. Capabilities that a call returns are inside the membrane too;
// capabilities that the caller passes in (sinks) belong to the caller and are not restricted. A
// refused call fails with PermissionDenied, naming method, role held and role needed, and is
// reported to `denied`.
//
// Calls of $audit methods, refused ones too, go to an AuditTrail (audit.h) before they are
// answered.
#pragma once

#include <capnp/capability.h>
#include <capnp/schema.h>
#include <kj/function.h>
#include <kj/map.h>
#include <kj/string.h>

#include "common/wire/audit.h"

namespace talos {

constexpr kj::StringPtr kRoleAdmin = "os:admin"_kj;
constexpr kj::StringPtr kRoleOperator = "os:operator"_kj;
constexpr kj::StringPtr kRoleReader = "os:reader"_kj;
constexpr kj::StringPtr kRoleEtcdBackup = "os:etcd:backup"_kj;
// Role of other apids: they may act for a caller with the caller's roles, and nothing else.
constexpr kj::StringPtr kRoleImpersonator = "os:impersonator"_kj;

// Returns the roles that a client certificate can have, most powerful first.
kj::ArrayPtr<const kj::StringPtr> clientRoles();

// Throws InvalidArgument listing the valid roles if one of `roles` is not valid. The message starts
// with `what`: "--roles".
void checkClientRoles(kj::ArrayPtr<const kj::String> roles, kj::StringPtr what);

// Returns true if a caller with these roles may call a method that needs `needed`, or one of
// several.
bool permits(kj::ArrayPtr<const kj::String> held, kj::StringPtr needed);

// Roles needed by every method of an interface, and of all interfaces that its methods mention.
class Rules {
 public:
  explicit Rules(capnp::InterfaceSchema root);

  struct Rule {
    kj::String method;         // "Machine.reboot"
    kj::String needed;         // "os:admin"; several: "os:reader or os:etcd:backup"
    bool maintenance = false;  // $maintenance: open to every caller on a machine without a config
    bool audit = false;        // $audit: recorded in the log `audit`
    bool returnsCapability = false;
    bool takesCapability = false;           // usually a stream: it lasts until its caller ends it
    kj::Maybe<capnp::StructSchema> params;  // nullptr for an unknown method
  };
  // Returns the rule of a method. An unknown method is named by its number, needs os:admin and is
  // not for maintenance mode.
  Rule find(uint64_t interfaceId, uint16_t methodId) const;
  // Returns every rule, sorted by method.
  kj::Vector<Rule> all() const;

 private:
  kj::TreeMap<uint64_t, kj::Vector<Rule>> byInterface;  // index: the method's ordinal
  void add(capnp::InterfaceSchema schema);
  void addMentioned(capnp::StructSchema schema, kj::TreeSet<uint64_t>& visited);
};

// Returns the error of a call that these roles do not allow.
kj::Exception roleMissing(const Rules::Rule& rule, kj::ArrayPtr<const kj::String> held);

using Denied = kj::Function<void(kj::StringPtr method, kj::StringPtr needed)>;

// Restricts `inner` to the calls that `held` allows. `rules` must outlive the capability and
// everything obtained through it. Without a trail nothing is recorded.
capnp::Capability::Client attenuate(const Rules& rules, capnp::Capability::Client inner,
                                    kj::Array<kj::String> held, Denied denied,
                                    kj::Maybe<kj::Own<AuditTrail>> trail = nullptr);

// Does the same for callers that cannot be authenticated: they may call only $maintenance methods,
// and only while the node has no config. `inMaintenance` is called for each call. Every other call
// fails with Unimplemented; after maintenance mode, every call fails with Unauthenticated.
capnp::Capability::Client attenuateToMaintenance(const Rules& rules,
                                                 capnp::Capability::Client inner,
                                                 kj::Function<bool()> inMaintenance, Denied denied,
                                                 kj::Maybe<kj::Own<AuditTrail>> trail = nullptr);

}  // namespace talos
