#include "machined/resources/resource-definitions.h"

#include <capnp/message.h>

#include "common/base/annotation.h"
#include "common/text/ascii.h"
#include "rpc/meta-resources.capnp.h"

namespace talos::machined {
namespace {

// Returns the path of a column's text in the output of `get -o json`.
kj::String pathOf(const ResourceType& type, const ResourceType::Column& column) {
  if (annotation::has(type.schema, annotation::kInline)) return kj::str("{@}");
  return kj::str("{.", annotation::nameOf(column.field), "}");
}

void describe(const ResourceType& type, rpc::ResourceDefinitionSpec::Builder spec) {
  spec.setType(type.name);
  spec.setDisplayType(type.displayName);
  spec.setDefaultNamespace(type.defaultNamespace);
  spec.setSensitive(type.sensitive);
  auto aliases = spec.initAliases(type.aliases.size());
  for (auto i : kj::indices(type.aliases)) aliases.set(i, type.aliases[i]);
  auto columns = spec.initPrintColumns(type.columns.size());
  for (auto i : kj::indices(type.columns)) {
    columns[i].setName(type.columns[i].header);
    columns[i].setJsonPath(pathOf(type, type.columns[i]));
  }
}

}  // namespace

void describeTypes(const Registry& registry,
                   kj::FunctionParam<void(rpc::Resource::Reader)> define) {
  auto one = [&](kj::StringPtr type, kj::StringPtr id, auto fill) {
    capnp::MallocMessageBuilder message;
    auto resource = message.initRoot<rpc::Resource>();
    auto metadata = resource.initMetadata();
    metadata.setNamespace("meta");
    metadata.setType(type);
    metadata.setId(id);
    fill(resource.initSpec());
    define(resource.asReader());
  };
  for (auto ns : Registry::namespaces()) {
    one("Namespaces.meta.cosi.dev", ns, [&](capnp::AnyPointer::Builder spec) {
      spec.initAs<rpc::NamespaceSpec>().setDescription(Registry::describeNamespace(ns));
    });
  }
  for (auto& type : registry.types()) {
    one("ResourceDefinitions.meta.cosi.dev", lowerCase(type.name),
        [&](capnp::AnyPointer::Builder spec) {
          describe(type, spec.initAs<rpc::ResourceDefinitionSpec>());
        });
  }
}

}  // namespace talos::machined
