// Roles as a membrane: a capability that only lets those calls through which a role may make.
//
// Which role a method needs is its $allow annotation in rpc/, read by reflection; a method without one
// needs os:admin, so a new method is never open by mistake. os:admin includes os:reader. Capabilities that
// a call returns are inside the membrane too; capabilities that the caller passes in (sinks) are its own
// and are not restricted. A refused call fails with PermissionDenied, naming method, role held and role
// needed, and is reported to `denied`.
#pragma once

#include <capnp/capability.h>
#include <kj/function.h>
#include <kj/string.h>

namespace talos {

constexpr kj::StringPtr kRoleAdmin = "os:admin"_kj;
constexpr kj::StringPtr kRoleReader = "os:reader"_kj;
constexpr kj::StringPtr kRoleImpersonator = "os:impersonator"_kj;

// Whether somebody with these roles may call a method that needs `needed`.
bool permits(kj::ArrayPtr<const kj::String> held, kj::StringPtr needed);

using Denied = kj::Function<void(kj::StringPtr method, kj::StringPtr needed)>;

capnp::Capability::Client attenuate(capnp::Capability::Client inner, kj::Array<kj::String> held, Denied denied);

}  // namespace talos
