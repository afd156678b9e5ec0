// Base of the reconcilers that follow objects of Kubernetes: lists the objects, watches them and
// passes each to the subclass, which publishes its results.
//
// It starts again when kubed's inputs in the store change, when the server ends the watch, and
// after a failure: after 500 ms and then after up to 10 s, until a watch has started. No state
// survives a crash.
#pragma once

#include "kubed/manifests/manifest-reconciler.h"

namespace talos::kubed {

class WatchReconciler {
 public:
  KJ_DISALLOW_COPY_AND_MOVE(WatchReconciler);

  kj::Promise<void> run();  // until dropped

 protected:
  // All arguments must outlive this object. `changed`: raised by changes of the inputs in the
  // store.
  WatchReconciler(kj::Timer& timer, kj::Function<double()>& random, Signal& changed)
      : timer(timer), random(random), changed(changed), backoff(kRetryPace) {}
  ~WatchReconciler() noexcept(false) = default;

  struct Selection {
    kj::Own<SharedKube> kubernetes;
    kube::Resource resource;
    kj::String fields = kj::str();  // field selector; empty for all objects
    // True for objects whose number and size others can choose: they are read a few at a time and
    // published after each page, so that foreign objects delay nothing that is before them. A list
    // that fails in its middle is cut off there, with a line in the log, and the watch starts.
    bool keepsNone = false;
  };
  // Returns nullptr if there is nothing to watch until the inputs change.
  virtual kj::Promise<kj::Maybe<Selection>> select() = 0;
  virtual void startList() = 0;  // forgets the objects
  virtual void take(const kube::Json& object, bool deleted) = 0;
  virtual kj::Promise<void> publish() = 0;  // after the list or its page, then after each change
  virtual void watchStarted() {}
  virtual kj::Promise<void> failed(kj::String error) = 0;

 private:
  kj::Timer& timer;
  kj::Function<double()>& random;
  Signal& changed;
  Backoff backoff;

  kj::Promise<void> follow();
  kj::Promise<kj::String> takeList(Selection& selection);  // returns the version to watch from
  kj::Promise<kj::String> takePages(Selection& selection);
  kj::Promise<void> watchOnce(Selection& selection);
};

// Publishes one resource of type Spec for each object that `entryOf` accepts.
template <typename Spec, typename Value>
class MirrorReconciler : public WatchReconciler {
 protected:
  explicit MirrorReconciler(const KubedDependencies& deps)
      : WatchReconciler(deps.timer, deps.random, deps.changed), store(deps.store) {}
  ~MirrorReconciler() noexcept(false) = default;

  struct Entry {
    kj::String id;
    Value value;
  };
  virtual kj::Maybe<Entry> entryOf(const kube::Json& object) = 0;
  virtual void fill(const Value& value, typename Spec::Builder spec) = 0;

  void startList() override { known.clear(); }
  void take(const kube::Json& object, bool deleted) override {
    auto found = entryOf(object);
    KJ_IF_MAYBE (entry, found) {
      known.erase(entry->id);
      if (!deleted) known.insert(kj::mv(entry->id), kj::mv(entry->value));
    }
  }
  kj::Promise<void> publish() override {
    StoreClient::Wanted records;
    for (auto& entry : known) {
      auto record = kj::heap<capnp::MallocMessageBuilder>();
      fill(entry.value, record->template initRoot<Spec>());
      records.insert(kj::str(entry.key), kj::mv(record));
    }
    return store.template replaceAll<Spec>(kj::mv(records));
  }

  StoreClient& store;
  kj::TreeMap<kj::String, Value> known;  // by id
};

}  // namespace talos::kubed
