#include "talosctl/views/resource-view.h"

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/text/foreign-text.h"
#include "common/yaml/yaml-codec.h"

namespace talos::talosctl {

namespace {

kj::StringPtr eventName(ChangeKind change) {
  switch (change) {
    case ChangeKind::kCreated:
      return "created";
    case ChangeKind::kUpdated:
      return "updated";
    case ChangeKind::kDestroyed:
      return "destroyed";
    case ChangeKind::kNone:
      return "";
  }
  KJ_UNREACHABLE;
}

kj::StringPtr mark(ChangeKind change) {
  switch (change) {
    case ChangeKind::kCreated:
      return "+";
    case ChangeKind::kDestroyed:
      return "-";
    default:
      return "";
  }
}

kj::StringPtr phaseName(rpc::Metadata::Phase phase) {
  return phase == rpc::Metadata::Phase::TEARING_DOWN ? "tearingDown" : "running";
}

capnp::DynamicStruct::Reader specOf(const ResourceType& type, rpc::Resource::Reader resource) {
  return resource.getSpec().getAs<capnp::DynamicStruct>(type.schema);
}

kj::String keyFor(rpc::Metadata::Reader metadata) {
  return kj::str(metadata.getNamespace(), "/", metadata.getId());
}

}  // namespace

Table resourceTable(const ResourceType& type, bool watch) {
  kj::Vector<kj::StringPtr> header;
  header.add("NODE");
  if (watch) header.add("*");
  header.addAll(
      kj::ArrayPtr<const kj::StringPtr>({"NAMESPACE"_kj, "TYPE"_kj, "ID"_kj, "VERSION"_kj}));
  for (auto& column : type.columns) header.add(column.header);
  return Table(header.asPtr());
}

kj::Array<kj::String> resourceRow(const ResourceType& type, kj::StringPtr node,
                                  rpc::Resource::Reader resource, bool watch, ChangeKind change) {
  auto metadata = resource.getMetadata();
  kj::Vector<kj::String> cells;
  cells.add(kj::str(node));
  if (watch) cells.add(kj::str(mark(change)));
  cells.add(kj::str(metadata.getNamespace()));
  cells.add(kj::str(type.displayName));
  cells.add(kj::str(metadata.getId()));
  cells.add(kj::str(metadata.getVersion()));
  auto spec = specOf(type, resource);
  for (auto& column : type.columns) cells.add(codec::cell(spec, column.field));
  return cells.releaseAsArray();
}

kj::String resourceYaml(const ResourceType& type, kj::StringPtr node,
                        rpc::Resource::Reader resource, ChangeKind change) {
  auto metadata = resource.getMetadata();
  kj::Vector<kj::String> lines;
  auto add = [&](kj::StringPtr key, kj::StringPtr value) {
    lines.add(kj::str("    ", key, ": ", value, "\n"));
  };
  lines.add(kj::str("node: ", codec::yamlScalar(node), "\n"));
  if (change != ChangeKind::kNone) lines.add(kj::str("event: ", eventName(change), "\n"));
  lines.add(kj::str("metadata:\n"));
  add("namespace", codec::yamlScalar(metadata.getNamespace()));
  add("type", codec::yamlScalar(metadata.getType()));
  add("id", codec::yamlScalar(metadata.getId()));
  add("version", kj::str(metadata.getVersion()));
  add("phase", phaseName(metadata.getPhase()));
  if (metadata.getFinalizers().size() > 0) {
    lines.add(kj::str("    finalizers:\n"));
    for (auto f : metadata.getFinalizers())
      lines.add(kj::str("        - ", codec::yamlScalar(f), "\n"));
  }
  lines.add(codec::writeYamlEntry("spec", specOf(type, resource)));
  return kj::strArray(lines, "");
}

kj::String resourceJson(const ResourceType& type, kj::StringPtr node,
                        rpc::Resource::Reader resource, ChangeKind change) {
  auto metadata = resource.getMetadata();
  kj::Vector<kj::String> members;
  auto add = [&](kj::StringPtr key, kj::StringPtr value) {
    members.add(kj::str("        \"", key, "\": ", value));
  };
  add("namespace", jsonString(metadata.getNamespace()));
  add("type", jsonString(metadata.getType()));
  add("id", jsonString(metadata.getId()));
  add("version", kj::str(metadata.getVersion()));
  add("phase", jsonString(phaseName(metadata.getPhase())));
  if (metadata.getFinalizers().size() > 0) {
    auto list = KJ_MAP(f, metadata.getFinalizers()) {
      return kj::str("            ", jsonString(f));
    };
    add("finalizers", kj::str("[\n", kj::strArray(list, ",\n"), "\n        ]"));
  }
  auto spec = codec::writeJson(specOf(type, resource), {.indent = 4});
  kj::Vector<char> indented;  // a JSON string contains no line end, so every line can be indented
  for (char c : withoutLastBreaks(spec)) {
    indented.add(c);
    if (c == '\n') indented.addAll("    "_kj);
  }
  auto event = change == ChangeKind::kNone
                   ? kj::str()
                   : kj::str("    \"event\": \"", eventName(change), "\",\n");
  return kj::str("{\n    \"node\": ", jsonString(node), ",\n", event, "    \"metadata\": {\n",
                 kj::strArray(members, ",\n"), "\n    },\n    \"spec\": ", indented.asPtr(),
                 "\n}\n");
}

void requireWatchable(size_t bytes) {
  if (bytes <= kMostWatchedBytes) return;
  fail(ErrorKind::kResourceExhausted,
       kj::str("the node has sent more than ", kMostWatchedBytes >> 20, " MiB of resources"));
}

size_t WatchView::costOf(kj::StringPtr key, const Known& one) {
  constexpr size_t kOverhead = 256;
  return key.size() + one.namespace_.size() + one.type.size() + kOverhead;
}

void WatchView::forget(kj::StringPtr key) {
  KJ_IF_MAYBE (old, known->find(key)) {
    bytes -= costOf(key, *old);
    known->erase(key);
  }
}

void WatchView::remember(kj::String key, rpc::Metadata::Reader metadata) {
  forget(key);
  Known one{kj::str(metadata.getNamespace()), kj::str(metadata.getType()), metadata.getVersion()};
  auto cost = costOf(key, one);
  requireWatchable(bytes + cost);
  bytes += cost;
  known->insert(kj::mv(key), kj::mv(one));
}

void WatchView::snapshot(capnp::List<rpc::Resource>::Reader resources, Show show) {
  auto before = kj::mv(known);
  known = kj::heap<Map>();
  bytes = 0;
  for (auto resource : resources) {
    auto metadata = resource.getMetadata();
    auto key = keyFor(metadata);
    KJ_IF_MAYBE (old, before->find(key)) {
      if (old->version != metadata.getVersion()) show(ChangeKind::kUpdated, resource);
    } else {
      show(ChangeKind::kCreated, resource);
    }
    remember(kj::mv(key), metadata);
  }
  for (auto& entry : *before) {
    if (known->find(entry.key) != nullptr) continue;
    capnp::MallocMessageBuilder message;  // the node never sends the last value
    auto gone = message.initRoot<rpc::Resource>();
    auto metadata = gone.initMetadata();
    metadata.setNamespace(entry.value.namespace_);
    metadata.setType(entry.value.type);
    metadata.setId(entry.key.slice(entry.value.namespace_.size() + 1));
    metadata.setVersion(entry.value.version);
    show(ChangeKind::kDestroyed, gone);
  }
}

void WatchView::change(rpc::Change::Reader change, Show show) {
  auto resource = change.getResource();
  auto metadata = resource.getMetadata();
  auto key = keyFor(metadata);
  switch (change.getEvent()) {
    case rpc::Change::Event::DESTROYED:
      forget(key);
      return show(ChangeKind::kDestroyed, resource);
    case rpc::Change::Event::CREATED:
      remember(kj::mv(key), metadata);
      return show(ChangeKind::kCreated, resource);
    case rpc::Change::Event::UPDATED:
      remember(kj::mv(key), metadata);
      return show(ChangeKind::kUpdated, resource);
  }
}

}  // namespace talos::talosctl
