// The outputs of a controller of this process: the whole set of its resources of a kind, computed
// from scratch each time; only the differences are written to the store.
#pragma once

#include <capnp/message.h>
#include <kj/map.h>

#include "machined/resources/store.h"

namespace talos::machined {

class OutputSet {
 public:
  virtual ~OutputSet() noexcept(false);  // overwrites the specs: some are secret
  KJ_DISALLOW_COPY_AND_MOVE(OutputSet);

  size_t size() const { return wanted.size(); }
  void each(kj::FunctionParam<void(rpc::Resource::Reader)> see) {
    for (auto& entry : wanted) see(entry.value->getRoot<rpc::Resource>().asReader());
  }

  // Sets the version with which the resource is created, so that a restored resource continues its
  // versions.
  void beginAt(kj::StringPtr id, uint64_t version);

  // Makes the owner's stored set equal to the added specs: creates missing resources, changes
  // different ones, tears down and destroys the rest. A resource that others still need
  // (finalizers) stays, torn down, until a later call finds it free; if it is wanted again
  // meanwhile, it is created again after that.
  void apply(Store& store);

 protected:
  OutputSet(kj::StringPtr type, kj::StringPtr owner) : type(type), owner(kj::str(owner)) {}
  rpc::Resource::Builder resource(kj::StringPtr id);
  kj::Maybe<rpc::Resource::Reader> tryResource(kj::StringPtr id);

 private:
  kj::StringPtr type;
  kj::String owner;
  kj::TreeMap<kj::String, kj::Own<capnp::MallocMessageBuilder>> wanted;
  kj::TreeMap<kj::String, uint64_t> firstVersions;  // first versions other than 1
};

template <typename Spec>
class Outputs final : public OutputSet {
 public:
  explicit Outputs(kj::StringPtr owner) : OutputSet(typeName<Spec>(), owner) {}

  // Returns the spec of a resource that must exist; the same builder for a second call with the
  // same ID.
  typename Spec::Builder add(kj::StringPtr id) {
    return resource(id).getSpec().template initAs<Spec>();
  }
  kj::Maybe<typename Spec::Reader> find(kj::StringPtr id) {
    return tryResource(id).map(
        [](rpc::Resource::Reader found) { return found.getSpec().template getAs<Spec>(); });
  }
  // Returns the copy, for further changes.
  typename Spec::Builder set(kj::StringPtr id, typename Spec::Reader spec) {
    auto copy = resource(id).getSpec();
    copy.template setAs<Spec>(spec);
    return copy.template getAs<Spec>();
  }
};

}  // namespace talos::machined
