#include "machined/resources/store.h"

#include <capnp/any.h>
#include <kj/debug.h>

#include <map>

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/log.h"
#include "common/memory/zeroize.h"
#include "machined/resources/resource-kind.h"
#include "machined/resources/store-journal-file.h"
#include "machined/resources/store-journal.h"

namespace talos::machined {
namespace {

kj::String nameOf(const Kind& kind, kj::StringPtr id) {
  return kj::str(kind.type.name, " \"", id, "\" in namespace \"", kind.ns, "\"");
}

void checkId(kj::StringPtr id) {
  if (id.size() == 0) fail(ErrorKind::kInvalidArgument, "the id of a resource is empty");
  if (id.size() > 512)
    fail(ErrorKind::kInvalidArgument, "the id of a resource must have at most 512 bytes");
  for (unsigned char c : id) {
    if (c < 0x20 || c == 0x7f) {
      fail(ErrorKind::kInvalidArgument, "the id of a resource must not have control characters");
    }
  }
}

bool equal(rpc::Resource::Reader a, rpc::Resource::Reader b) {
  return a.getSpec().equals(b.getSpec()) == capnp::Equality::EQUAL;
}

}  // namespace

struct Store::Impl final : public kj::Refcounted, private kj::TaskSet::ErrorHandler {
  Impl(const Registry& registry, const kj::Clock& clock)
      : registry(registry), clock(clock), tasks(*this) {}

  const Registry& registry;
  const kj::Clock& clock;
  std::map<std::pair<const ResourceType*, kj::String>, kj::Own<Kind>> kinds;
  kj::Maybe<kj::Own<JournalFile>> journal;
  size_t liveBytes = 0;
  kj::Vector<kj::Own<Stored>> retired;  // readers of this turn may still point to them
  kj::TaskSet tasks;                    // last, because its tasks use the other members

  void taskFailed(kj::Exception&& e) override {
    log::error("error in the resource store", {{"error", messageOf(e)}});
  }

  // --- kinds -------------------------------------------------------------------------------------
  const ResourceType& typeOf(kj::StringPtr name) const {
    KJ_IF_MAYBE (type, registry.byName(name)) {
      return *type;
    }
    return registry.find(name);
  }

  Kind& kindOf(kj::StringPtr ns, kj::StringPtr typeName) {
    auto& type = typeOf(typeName);
    auto space = ns.size() == 0 ? kj::StringPtr(type.defaultNamespace) : ns;
    auto key = std::make_pair(&type, kj::str(space));
    auto found = kinds.find(key);
    if (found != kinds.end()) return *found->second;
    for (auto known : Registry::namespaces()) {
      if (known == space) {
        return *kinds.emplace(kj::mv(key), kj::heap<Kind>(type, space)).first->second;
      }
    }
    fail(ErrorKind::kNotFound, kj::str("unknown namespace \"", space, "\"; use one of ",
                                       kj::strArray(Registry::namespaces(), ", ")));
  }

  Stored& existing(Kind& kind, kj::StringPtr id) {
    KJ_IF_MAYBE (stored, kind.records.find(id)) {
      return **stored;
    }
    fail(ErrorKind::kNotFound, kj::str(nameOf(kind, id), " not found"));
  }

  static void checkOwner(const Kind& kind, rpc::Resource::Reader stored, kj::StringPtr owner) {
    auto metadata = stored.getMetadata();
    if (metadata.getOwner() == owner) return;
    fail(ErrorKind::kPermissionDenied, kj::str(nameOf(kind, metadata.getId()), " is owned by \"",
                                               metadata.getOwner(), "\", not by \"", owner, "\""));
  }

  // --- changes -----------------------------------------------------------------------------------
  uint64_t now() const { return (clock.now() - kj::UNIX_EPOCH) / kj::NANOSECONDS; }

  static kj::Array<kj::byte> recordOf(rpc::Change::Event event, rpc::Resource::Reader resource) {
    capnp::MallocMessageBuilder message(resource.totalSize().wordCount + 8);
    KJ_DEFER(zeroize(message));
    auto change = message.initRoot<rpc::Change>();
    change.setEvent(event);
    if (event == rpc::Change::Event::DESTROYED) {
      change.initResource().setMetadata(resource.getMetadata());
    } else {
      change.setResource(resource);
    }
    return journal::encode(change.asReader());
  }

  // Writes to the journal first, then to memory, and then informs the readers.
  void commit(Kind& kind, rpc::Change::Event event, kj::Own<Stored> stored) {
    if (event != rpc::Change::Event::DESTROYED) checkRoom(kind, *stored);
    KJ_IF_MAYBE (j, journal) {
      auto record = recordOf(event, stored->get());
      KJ_DEFER(zeroize(record));
      (*j)->append(record);
    }
    apply(kind, event, kj::addRef(*stored));
    kind.record(event, kj::mv(stored));
    kind.changed.raise();
    notify(kind);
    compactIfWorth();
  }

  // A write that makes the store smaller is always accepted.
  void checkRoom(Kind& kind, Stored& stored) {
    auto id = stored.get().getMetadata().getId();
    size_t before = 0;
    KJ_IF_MAYBE (old, kind.records.find(id)) before = (*old)->bytes();
    if (stored.bytes() <= before || liveBytes - before + stored.bytes() <= kMostLiveBytes) return;
    fail(ErrorKind::kResourceExhausted,
         kj::str(nameOf(kind, id), " was not written: the resources of this node have ", liveBytes,
                 " bytes; at most ", kMostLiveBytes, " are kept"));
  }

  void apply(Kind& kind, rpc::Change::Event event, kj::Own<Stored> stored) {
    auto id = stored->get().getMetadata().getId();
    bool destroyed = event == rpc::Change::Event::DESTROYED;
    if (!destroyed) grow(kind, stored->bytes());
    KJ_IF_MAYBE (old, kind.records.find(id)) {
      grow(kind, -(*old)->bytes());
      retire(kj::mv(*old));
      if (destroyed) {
        kind.records.erase(id);
      } else {
        *old = kj::mv(stored);
      }
      return;
    }
    if (!destroyed) kind.records.insert(kj::str(id), kj::mv(stored));
  }
  void grow(Kind& kind, size_t bytes) {
    liveBytes += bytes;
    kind.bytes += bytes;
  }

  void retire(kj::Own<Stored> stored) {
    if (retired.empty()) tasks.add(kj::evalLater([this] { retired.clear(); }));
    retired.add(kj::mv(stored));
  }

  void notify(Kind& kind) {
    if (kind.notifying || kind.listeners.empty()) return;
    kind.notifying = true;
    tasks.add(kj::evalLater([&kind] {
      kind.notifying = false;
      kj::Vector<kj::Own<Kind::Listener>> current, kept;
      for (auto& listener : kind.listeners) {
        if (!listener->active) continue;
        current.add(kj::addRef(*listener));
        kept.add(kj::mv(listener));
      }
      kind.listeners = kj::mv(kept);
      for (auto& listener : current) {
        if (listener->active) listener->call();
      }
    }));
  }

  // --- writes ------------------------------------------------------------------------------------
  // A changed copy becomes the next version.
  void change(Kind& kind, Stored& old, kj::FunctionParam<void(rpc::Resource::Builder)> edit) {
    capnp::MallocMessageBuilder message(old.get().totalSize().wordCount + 64);
    KJ_DEFER(zeroize(message));
    message.setRoot(old.get());
    auto resource = message.getRoot<rpc::Resource>();
    edit(resource);
    resource.getMetadata().setVersion(old.get().getMetadata().getVersion() + 1);
    resource.getMetadata().setUpdated(now());
    commit(kind, rpc::Change::Event::UPDATED,
           kj::refcounted<Stored>(resource.asReader(), kind.type.sensitive));
  }

  uint64_t create(Kind& kind, rpc::Resource::Reader resource, uint64_t first) {
    capnp::MallocMessageBuilder message(resource.totalSize().wordCount + 64);
    KJ_DEFER(zeroize(message));
    auto fresh = message.initRoot<rpc::Resource>();
    auto metadata = fresh.initMetadata();
    metadata.setNamespace(kind.ns);
    metadata.setType(kind.type.name);
    metadata.setId(resource.getMetadata().getId());
    metadata.setOwner(resource.getMetadata().getOwner());
    metadata.setVersion(first);
    metadata.setCreated(now());
    metadata.setUpdated(metadata.getCreated());
    fresh.getSpec().set(resource.getSpec());
    commit(kind, rpc::Change::Event::CREATED,
           kj::refcounted<Stored>(fresh.asReader(), kind.type.sensitive));
    return first;
  }

  uint64_t put(Kind& kind, rpc::Resource::Reader resource, uint64_t first = 1) {
    auto given = resource.getMetadata();
    checkId(given.getId());
    if (!resource.getSpec().isStruct()) {
      fail(ErrorKind::kInvalidArgument, kj::str(nameOf(kind, given.getId()), " has no spec"));
    }
    auto size = resource.totalSize().wordCount * sizeof(capnp::word);
    if (size > kLargestResource) {
      fail(ErrorKind::kInvalidArgument, kj::str(nameOf(kind, given.getId()), " has ", size,
                                                " bytes; at most ", kLargestResource));
    }
    KJ_IF_MAYBE (stored, kind.records.find(given.getId())) {
      return replace(kind, **stored, resource);
    }
    if (given.getVersion() != 0) {
      fail(ErrorKind::kNotFound, kj::str(nameOf(kind, given.getId()), " not found; version ",
                                         given.getVersion(), " was to be replaced"));
    }
    return create(kind, resource, first);
  }

  // A caller that exceeds its quota, possibly since an older version, can still replace its records
  // by records that are not larger.
  void requireRoom(const Kind& kind, rpc::Resource::Reader resource, kj::StringPtr who,
                   const Quota& quota) const {
    size_t records = 0, bytes = 0, old = 0;
    for (auto& [key, other] : kinds) {
      if (key.first != &kind.type) continue;
      records += other->records.size();
      bytes += other->bytes;
    }
    bool fresh = true;
    KJ_IF_MAYBE (stored, kind.records.find(resource.getMetadata().getId())) {
      fresh = false;
      old = (*stored)->bytes();
    }
    if (fresh && records >= quota.records) {
      fail(ErrorKind::kResourceExhausted,
           kj::str(who, " has ", records, " records of ", kind.type.name, ", which is the limit"));
    }
    auto size = resource.totalSize().wordCount * sizeof(capnp::word);
    if (size > old && bytes - old + size > quota.bytes) {
      fail(ErrorKind::kResourceExhausted,
           kj::str("the records of ", kind.type.name, " that ", who, " writes would have ",
                   bytes - old + size, " bytes; at most ", quota.bytes));
    }
  }

  uint64_t replace(Kind& kind, Stored& old, rpc::Resource::Reader resource) {
    auto given = resource.getMetadata(), stored = old.get().getMetadata();
    if (given.getVersion() == 0) {
      fail(ErrorKind::kConflict,
           kj::str(nameOf(kind, given.getId()), " exists, at version ", stored.getVersion()));
    }
    checkOwner(kind, old.get(), given.getOwner());
    if (given.getVersion() != stored.getVersion()) {
      fail(ErrorKind::kConflict,
           kj::str(nameOf(kind, given.getId()), " is at version ", stored.getVersion(),
                   "; the change was computed from version ", given.getVersion()));
    }
    if (equal(old.get(), resource)) return stored.getVersion();
    if (stored.getPhase() != rpc::Metadata::Phase::RUNNING) {
      fail(ErrorKind::kConflict, kj::str(nameOf(kind, given.getId()), " is being torn down"));
    }
    change(kind, old, [&](rpc::Resource::Builder next) { next.getSpec().set(resource.getSpec()); });
    return given.getVersion() + 1;
  }

  void setFinalizers(Kind& kind, Stored& old, kj::ArrayPtr<const kj::StringPtr> names) {
    change(kind, old, [&](rpc::Resource::Builder next) {
      fillTexts(next.getMetadata().initFinalizers(names.size()), names);
    });
  }

  // --- journal -----------------------------------------------------------------------------------
  kj::Array<kj::byte> snapshot() {
    kj::Vector<kj::byte> bytes(3 * liveBytes + 4096);  // ample, because it must not be moved
    bytes.addAll(journal::heading());
    for (auto& [key, kind] : kinds) {
      for (auto& entry : kind->records) {
        auto record = recordOf(rpc::Change::Event::CREATED, entry.value->get());
        KJ_DEFER(zeroize(record));
        bytes.addAll(record);
      }
    }
    return bytes.releaseAsArray();
  }

  void recover(rpc::Change::Reader change) {
    auto resource = change.getResource();
    auto metadata = resource.getMetadata();
    KJ_REQUIRE(metadata.getId().size() > 0);
    auto& kind = kindOf(metadata.getNamespace(), metadata.getType());
    apply(kind, change.getEvent(), kj::refcounted<Stored>(resource, kind.type.sensitive));
  }

  void define() {
    describeTypes(registry, [&](rpc::Resource::Reader definition) {
      auto metadata = definition.getMetadata();
      auto& kind = kindOf(metadata.getNamespace(), metadata.getType());
      capnp::MallocMessageBuilder message;
      message.setRoot(definition);
      auto resource = message.getRoot<rpc::Resource>();
      KJ_IF_MAYBE (stored, kind.records.find(metadata.getId())) {
        resource.getMetadata().setVersion((*stored)->get().getMetadata().getVersion());
      }
      put(kind, resource.asReader());
    });
  }

  void forget() {
    for (auto& [key, kind] : kinds) {
      kind->records.clear();
      kind->bytes = 0;
    }
    liveBytes = 0;
  }

  // Returns the valid length of the predecessor's journal; nullptr if the journal cannot be used,
  // and the store is empty.
  kj::Maybe<size_t> restoreJournal(JournalFile& file, kj::Maybe<kj::String>& lost) {
    KJ_IF_MAYBE (found, file.read()) {
      KJ_DEFER(zeroize(found->words.asBytes()));
      forget();
      KJ_IF_MAYBE (damage, found->damage) {
        lost = kj::str("all records: the journal cannot be read: ", *damage);
        return nullptr;
      }
      auto valid =
          journal::recover(found->words, [&](rpc::Change::Reader change) { recover(change); });
      auto size = found->words.asBytes().size();
      if (valid == 0) {
        lost = kj::str("all records: the journal is damaged at its beginning");
        return nullptr;
      }
      if (!journal::isTornAfter(found->words, valid)) {
        lost = kj::str("the records behind byte ", valid, " of ", size, ": the journal is damaged");
      }
      define();
      return valid;
    }
    return nullptr;
  }

  kj::Promise<kj::Maybe<kj::String>> attach(Process1& process1) {
    KJ_REQUIRE(journal == nullptr, "a journal is attached already");
    auto file = kj::heap<JournalFile>(process1);
    kj::Maybe<kj::String> lost;
    kj::Maybe<size_t> valid;
    auto failure = kj::runCatchingExceptions([&]() {
      valid = restoreJournal(*file, lost);
      KJ_IF_MAYBE (v, valid) file->resume(*v);
    });
    KJ_IF_MAYBE (e, failure) {  // every record was read, but the records are not those of a store
      lost = kj::str("all records: ", messageOf(*e));
      valid = nullptr;
    }
    KJ_IF_MAYBE (l, lost) log::error("cannot restore the resource journal", {{"error", *l}});
    if (valid != nullptr) {
      journal = kj::mv(file);
    } else {
      if (lost != nullptr) forget();
      define();
      co_await writeWhole(*journal.emplace(kj::mv(file)));
    }
    co_return kj::mv(lost);
  }

  kj::Promise<void> writeWhole(JournalFile& file) {
    auto bytes = snapshot();
    KJ_DEFER(zeroize(bytes));
    return file.replace(bytes);
  }

  void compactIfWorth() {
    KJ_IF_MAYBE (j, journal) {
      if ((*j)->replacing() || (*j)->size() <= kCompactionThreshold ||
          (*j)->size() <= 4 * liveBytes)
        return;
      tasks.add(writeWhole(**j));
    }
  }

  // --- watch -------------------------------------------------------------------------------------
  kj::Promise<void> sendSnapshot(Kind& kind, kj::StringPtr id, rpc::ResourceSink::Client& sink) {
    kj::Vector<rpc::Resource::Reader> found;
    if (id.size() > 0) {
      KJ_IF_MAYBE (stored, kind.records.find(id)) {
        found.add((*stored)->get());
      }
    } else {
      for (auto& entry : kind.records) found.add(entry.value->get());
    }
    auto request = sink.snapshotRequest();
    auto list = request.initResources(found.size());
    for (auto i : kj::indices(found)) list.setWithCaveats(i, found[i]);
    return request.send();
  }

  kj::Promise<void> watch(Kind& kind, kj::String id, rpc::ResourceSink::Client sink) {
    auto self = kj::addRef(*this);
    Kind::Cursor cursor(kind);
    co_await sendSnapshot(kind, id, sink);
    for (;;) {
      if (cursor.lag() > 0) {
        auto request = sink.laggedRequest();
        request.setMissed(cursor.lag());
        cursor.skip();
        // No change may come between this point and the snapshot's: both are sent without waiting.
        auto lagged = request.send();
        auto sent = sendSnapshot(kind, id, sink);
        co_await lagged;
        co_await sent;
        continue;
      }
      auto batch = cursor.nextBatch(id);
      if (batch.empty()) {
        if (cursor.peek() == nullptr && cursor.lag() == 0) co_await kind.changed.next();
        continue;
      }
      auto request = sink.changesRequest();
      auto list = request.initChanges(batch.size());
      for (auto i : kj::indices(batch)) {
        list[i].setEvent(batch[i].event);
        list[i].setResource(batch[i].resource->get());
      }
      batch.clear();
      co_await request.send();
    }
  }
};

Store::Store(const Registry& registry, const kj::Clock& clock)
    : impl(kj::refcounted<Impl>(registry, clock)), access(Access::all("machined")) {
  impl->define();
}
Store::Store(kj::Own<Impl> impl, Access access) : impl(kj::mv(impl)), access(kj::mv(access)) {}
Store::~Store() noexcept(false) {}

kj::Own<Store> Store::limited(Access access) {
  return kj::Own<Store>(new Store(kj::addRef(*impl), kj::mv(access)),
                        kj::_::HeapDisposer<Store>::instance);
}

kj::Promise<kj::Maybe<kj::String>> Store::attachJournal(Process1& process1) {
  return impl->attach(process1);
}

kj::Maybe<rpc::Resource::Reader> Store::tryGet(kj::StringPtr ns, kj::StringPtr type,
                                               kj::StringPtr id) const {
  auto& kind = impl->kindOf(ns, type);
  access.requireRead(kind.type, kind.ns, id);
  KJ_IF_MAYBE (stored, kind.records.find(id)) {
    return (*stored)->get();
  }
  return nullptr;
}

rpc::Resource::Reader Store::get(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id) const {
  auto& kind = impl->kindOf(ns, type);
  access.requireRead(kind.type, kind.ns, id);
  return impl->existing(kind, id).get();
}

kj::Vector<rpc::Resource::Reader> Store::list(kj::StringPtr ns, kj::StringPtr type) const {
  auto& kind = impl->kindOf(ns, type);
  access.requireRead(kind.type, kind.ns, "");
  kj::Vector<rpc::Resource::Reader> result;
  for (auto& entry : kind.records) result.add(entry.value->get());
  return result;
}

namespace {
// Definitions depend only on the program.
void requireWritable(const Kind& kind) {
  if (kind.ns == "meta") {
    fail(ErrorKind::kPermissionDenied, kj::str(kind.type.name, " is read-only"));
  }
}
}  // namespace

uint64_t Store::put(rpc::Resource::Reader resource, uint64_t first) {
  auto metadata = resource.getMetadata();
  auto& kind = impl->kindOf(metadata.getNamespace(), metadata.getType());
  access.requireWrite(kind.type, kind.ns);
  requireWritable(kind);
  KJ_IF_MAYBE (quota, access.limit()) {
    impl->requireRoom(kind, resource, access.name(), *quota);
  }
  return impl->put(kind, resource, first);
}

void Store::destroy(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id, kj::StringPtr owner) {
  auto& kind = impl->kindOf(ns, type);
  access.requireWrite(kind.type, kind.ns);
  requireWritable(kind);
  auto& stored = impl->existing(kind, id);
  impl->checkOwner(kind, stored.get(), owner);
  auto finalizers = stored.get().getMetadata().getFinalizers();
  if (finalizers.size() > 0) {
    fail(ErrorKind::kConflict,
         kj::str(nameOf(kind, id), " is still held by ", kj::strArray(finalizers, ", ")));
  }
  impl->commit(kind, rpc::Change::Event::DESTROYED, kj::addRef(stored));
}

bool Store::teardown(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id, kj::StringPtr owner) {
  auto& kind = impl->kindOf(ns, type);
  access.requireWrite(kind.type, kind.ns);
  requireWritable(kind);
  auto& stored = impl->existing(kind, id);
  impl->checkOwner(kind, stored.get(), owner);
  bool ready = stored.get().getMetadata().getFinalizers().size() == 0;
  if (stored.get().getMetadata().getPhase() != rpc::Metadata::Phase::TEARING_DOWN) {
    impl->change(kind, stored, [](rpc::Resource::Builder next) {
      next.getMetadata().setPhase(rpc::Metadata::Phase::TEARING_DOWN);
    });
  }
  return ready;
}

void Store::addFinalizer(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id,
                         kj::StringPtr finalizer) {
  auto& kind = impl->kindOf(ns, type);
  access.requireFinalizers(kind.type, kind.ns, id);
  requireWritable(kind);
  checkId(finalizer);
  auto& stored = impl->existing(kind, id);
  kj::Vector<kj::StringPtr> names;
  for (auto name : stored.get().getMetadata().getFinalizers()) {
    if (name == finalizer) return;
    names.add(name);
  }
  if (stored.get().getMetadata().getPhase() != rpc::Metadata::Phase::RUNNING) {
    fail(ErrorKind::kConflict,
         kj::str(nameOf(kind, id), " is being torn down; cannot add a finalizer"));
  }
  names.add(finalizer);
  impl->setFinalizers(kind, stored, names);
}

void Store::removeFinalizer(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id,
                            kj::StringPtr finalizer) {
  auto& kind = impl->kindOf(ns, type);
  access.requireFinalizers(kind.type, kind.ns, id);
  requireWritable(kind);
  auto& stored = impl->existing(kind, id);
  kj::Vector<kj::StringPtr> names;
  bool found = false;
  for (auto name : stored.get().getMetadata().getFinalizers()) {
    if (name == finalizer) {
      found = true;
    } else {
      names.add(name);
    }
  }
  if (found) impl->setFinalizers(kind, stored, names);
}

kj::Promise<void> Store::watch(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id,
                               rpc::ResourceSink::Client sink) {
  auto& kind = impl->kindOf(ns, type);
  access.requireRead(kind.type, kind.ns, id);
  return impl->watch(kind, kj::str(id), kj::mv(sink));
}

kj::Own<void> Store::onChange(kj::StringPtr ns, kj::StringPtr type, kj::Function<void()> changed) {
  auto& kind = impl->kindOf(ns, type);
  auto listener = kj::refcounted<Kind::Listener>(kj::mv(changed));
  auto& ref = *listener;
  kind.listeners.add(kj::addRef(ref));
  return kj::attachRef(
      ref, kj::defer([listener = kj::mv(listener)]() mutable { listener->active = false; }));
}

kj::Vector<kj::StringPtr> Store::types() const {
  kj::Vector<kj::StringPtr> names;
  for (auto& type : impl->registry.types()) names.add(type.name);
  return names;
}

const ResourceType& Store::typeOf(kj::StringPtr nameOrAlias) const {
  return impl->typeOf(nameOrAlias);
}

}  // namespace talos::machined
