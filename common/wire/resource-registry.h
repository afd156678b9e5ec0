// The registry of resource types, built by reflection from rpc/*-resources.capnp: names, aliases,
// columns, sensitivity.
#pragma once

#include <capnp/schema.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos {

struct ResourceType {
  kj::String name;                 // Services.v1alpha1.talos.dev
  kj::String displayName;          // Service
  kj::String defaultNamespace;     // runtime
  kj::Vector<kj::String> aliases;  // explicit ones first, then derived; lower case
  size_t explicitAliases = 0;      // the number of explicit ones
  bool sensitive = false;
  capnp::StructSchema schema;  // schema of the spec
  struct Column {
    kj::String header;
    capnp::StructSchema::Field field;
  };
  kj::Vector<Column> columns;  // headers in upper case
};

// Derives display name and aliases from "Name.suffix": "Services.v1alpha1.talos.dev" has the
// aliases services, service, services.v1alpha1, services.v1alpha1.talos. Throws InvalidArgument if
// the name does not have this form.
struct DerivedNames {
  kj::String displayName;
  kj::Vector<kj::String> aliases;
};
DerivedNames deriveNames(kj::StringPtr typeName);

class Registry {
 public:
  // Builds the registry from the schema; cheap enough (a few hundred names) for every program to
  // own one.
  Registry();

  kj::ArrayPtr<const ResourceType> types() const { return all; }  // sorted by name

  // Finds a type by its full name or an alias, ignoring case. A name or an explicit alias takes
  // precedence over derived aliases. Throws NotFound, or InvalidArgument listing the types if the
  // alias is ambiguous.
  const ResourceType& find(kj::StringPtr nameOrAlias) const;
  // Finds a type by its exact full name.
  kj::Maybe<const ResourceType&> byName(kj::StringPtr name) const;
  // Returns the names of all namespaces, and the description of one (empty for an unknown name).
  static kj::ArrayPtr<const kj::StringPtr> namespaces();
  static kj::StringPtr describeNamespace(kj::StringPtr name);

 private:
  kj::Vector<ResourceType> all;
};

}  // namespace talos
