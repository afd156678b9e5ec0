#include "machined/resources/resource-kind.h"

#include <capnp/message.h>

#include "common/base/annotation.h"
#include "common/base/fill-list.h"
#include "common/memory/zeroize.h"
#include "common/text/ascii.h"
#include "machined/resources/store.h"
#include "rpc/meta-resources.capnp.h"

namespace talos::machined {

Stored::Stored(rpc::Resource::Reader resource, bool secret)
    : message(resource.totalSize().wordCount + 4), secret(secret) {
  message.setRoot(resource);
  reader = message.getRoot<rpc::Resource>().asReader();
  size = message.sizeInWords() * sizeof(capnp::word);
}

Stored::~Stored() noexcept(false) {
  if (secret) zeroize(message);
}

Kind::Cursor::Cursor(Kind& kind) : kind(kind), at(kind.end) {
  place = kind.cursors.insert(kind.cursors.end(), this);
}

Kind::Cursor::~Cursor() noexcept(false) {
  kind.cursors.erase(place);
  kind.trim();
}

kj::Maybe<Kind::Changed&> Kind::Cursor::peek() const {
  if (at < kind.first || at >= kind.end) return nullptr;
  return kind.ring[at - kind.first];
}

void Kind::Cursor::next() {
  ++at;
  kind.trim();
}

void Kind::Cursor::skip() {
  at = kind.end;
  kind.trim();
}

void Kind::record(rpc::Change::Event event, kj::Own<Stored> resource) {
  ++end;
  ringBytes += resource->bytes();
  ring.push_back(Changed{event, kj::mv(resource)});
  while (ring.size() > kChangeRing || ringBytes > kChangeRingBytes) dropFront();
  trim();
}

kj::Vector<Kind::Changed> Kind::Cursor::nextBatch(kj::StringPtr id) {
  constexpr size_t kMostChanges = 64, kMostBytes = 256u << 10;
  kj::Vector<Changed> batch;
  for (size_t bytes = 0; batch.size() < kMostChanges && bytes < kMostBytes; next()) {
    auto changed = peek();
    KJ_IF_MAYBE (c, changed) {
      if (id.size() > 0 && c->resource->get().getMetadata().getId() != id) continue;
      bytes += c->resource->bytes();
      batch.add(Changed{c->event, kj::addRef(*c->resource)});
    } else {
      break;
    }
  }
  return batch;
}

void Kind::dropFront() {
  ringBytes -= ring.front().resource->bytes();
  ring.pop_front();
  ++first;
}

void Kind::trim() {
  auto least = end;
  for (auto cursor : cursors) least = kj::min(least, cursor->at);
  while (first < least) dropFront();
}

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
  fillTexts(spec.initAliases(type.aliases.size()), type.aliases);
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
