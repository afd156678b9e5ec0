#include "machined/resources/controller-outputs.h"

#include "common/memory/zeroize.h"

namespace talos::machined {

OutputSet::~OutputSet() noexcept(false) {
  for (auto& entry : wanted) zeroize(*entry.value);
}

rpc::Resource::Builder OutputSet::resource(kj::StringPtr id) {
  auto& message = wanted.findOrCreate(id, [&] {
    return kj::TreeMap<kj::String, kj::Own<capnp::MallocMessageBuilder>>::Entry{
        kj::str(id), kj::heap<capnp::MallocMessageBuilder>()};
  });
  auto resource = message->getRoot<rpc::Resource>();
  auto metadata = resource.getMetadata();
  metadata.setType(type);
  metadata.setId(id);
  metadata.setOwner(owner);
  return resource;
}

kj::Maybe<rpc::Resource::Reader> OutputSet::tryResource(kj::StringPtr id) {
  KJ_IF_MAYBE (message, wanted.find(id)) return (*message)->getRoot<rpc::Resource>().asReader();
  return nullptr;
}

void OutputSet::beginAt(kj::StringPtr id, uint64_t version) {
  firstVersions.upsert(kj::str(id), version);
}

void OutputSet::apply(Store& store) {
  for (auto stored : store.list("", type)) {
    auto metadata = stored.getMetadata();
    if (metadata.getOwner() != owner) continue;
    auto id = metadata.getId();
    bool tearing = metadata.getPhase() == rpc::Metadata::Phase::TEARING_DOWN;
    KJ_IF_MAYBE (message, wanted.find(id)) {
      (*message)->getRoot<rpc::Resource>().getMetadata().setVersion(metadata.getVersion());
      if (!tearing) continue;
    }
    if (!store.teardown("", type, id, owner)) {
      wanted.erase(id);
      continue;
    }
    store.destroy("", type, id, owner);
    KJ_IF_MAYBE (message, wanted.find(id)) {
      (*message)->getRoot<rpc::Resource>().getMetadata().setVersion(0);
    }
  }
  for (auto& entry : wanted) {
    uint64_t first = 1;
    KJ_IF_MAYBE (kept, firstVersions.find(entry.key)) first = *kept;
    store.put(entry.value->getRoot<rpc::Resource>().asReader(), first);
  }
}

}  // namespace talos::machined
