// Access rules for resources: a list of rules, made once for a caller and asked on each call.
//
// A daemon is known by its uid (SO_PEERCRED), a controller by its declared inputs and outputs, a
// remote user by the capability that was handed out. A call that no rule allows is refused. A
// daemon may keep only so much of each type that it writes: machined holds it, twice, and one that
// was taken over must not be able to end machined by its memory.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/base/resource.h"
#include "common/wire/resource-registry.h"
#include "machined/resources/controller-dependencies.h"

namespace talos::machined {

// The limit for one type, in all namespaces.
struct Quota {
  size_t records = 16'384;  // networkd writes 10 000 routes and more
  size_t bytes = 7u << 20;  // a list of them is one message, which may have 8 MiB
};

class Access {
 public:
  // Everything but writing definitions: for the brain's own code.
  static Access all(kj::StringPtr who);
  // Reads all types (with or without the sensitive ones) and writes none: what users see.
  static Access user(bool sensitive);
  // The table of daemons. A uid that is not in it may do nothing; 0 may do everything.
  static Access ofUid(unsigned uid);
  // The table's rules, for display.
  static kj::Vector<ControllerLinks> linksOfDaemons(const Registry& registry);
  // Nothing yet; rules are added.
  static Access none(kj::StringPtr who);

  // An empty ns or id: any. Writing includes reading.
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

  // Throw PermissionDenied, saying who may not do what. An empty id asks for the whole kind.
  void requireRead(const ResourceType& type, kj::StringPtr ns, kj::StringPtr id) const;
  void requireWrite(const ResourceType& type, kj::StringPtr ns) const;
  void requireFinalizers(const ResourceType& type, kj::StringPtr ns, kj::StringPtr id) const;

  // None: it may keep any number.
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
