// Access rules for resources: a list of rules, made once for a caller and checked on each call.
//
// A daemon is known by its uid (SO_PEERCRED), a controller by its declared inputs and outputs, a
// remote user by the capability that was handed out. A call that no rule allows is refused. A
// daemon may keep only a limited amount of each type that it writes: machined holds the records
// twice, and a compromised daemon must not be able to crash machined by exhausting its memory.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/base/resource.h"
#include "common/wire/resource-registry.h"
#include "machined/resources/controller-dependencies.h"

namespace talos::machined {

// The limit for one type, in all namespaces.
struct Quota {
  size_t records = 16'384;  // networkd may write more than 10 000 routes
  size_t bytes = 7u << 20;  // their list is one message, which may have 8 MiB
};

class Access {
 public:
  // Allows everything except writing definitions: for the brain's code.
  static Access all(kj::StringPtr who);
  // Reads all types (with or without the sensitive ones) and writes none: the access of users.
  static Access user(bool sensitive);
  // Looks up the table of daemons. A uid that is not in it may do nothing; 0 may do everything.
  static Access ofUid(unsigned uid);
  // Returns the table's rules, for display.
  static kj::Vector<ControllerLinks> linksOfDaemons(const Registry& registry);
  // Allows nothing; rules are added.
  static Access none(kj::StringPtr who);

  // An empty ns or ID matches any. Writing includes reading.
  void allowRead(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id = "");
  void allowWrite(kj::StringPtr type, kj::StringPtr ns = "");
  void allowFinalizers(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id = "");
  template <typename... Specs>
  void allowRead() {
    (allowRead("", typeName<Specs>()), ...);
  }
  template <typename... Specs>
  void allowWrite() {
    (allowWrite(typeName<Specs>()), ...);
  }

  // Throw PermissionDenied, with the caller and the refused access. An empty ID means the whole
  // kind.
  void requireRead(const ResourceType& type, kj::StringPtr ns, kj::StringPtr id) const;
  void requireWrite(const ResourceType& type, kj::StringPtr ns) const;
  void requireFinalizers(const ResourceType& type, kj::StringPtr ns, kj::StringPtr id) const;

  // Returns nullptr if the caller may keep any number.
  kj::Maybe<const Quota&> limit() const { return quota; }
  kj::StringPtr name() const { return who; }
  Access clone() const;

 private:
  enum class Verb { kRead, kWrite, kFinalizers };
  enum class Scope { kRules, kInsensitive, kEverything };
  struct Rule {
    Verb verb;
    kj::String ns, type, id;
  };
  kj::String who;
  Scope scope = Scope::kRules;
  bool writesAll = false;
  kj::Maybe<Quota> quota;
  kj::Vector<Rule> rules;

  explicit Access(kj::StringPtr who) : who(kj::str(who)) {}
  bool permits(Verb verb, const ResourceType& type, kj::StringPtr ns, kj::StringPtr id) const;
  [[noreturn]] void refuse(kj::StringPtr verb, const ResourceType& type, kj::StringPtr id) const;
};

}  // namespace talos::machined
