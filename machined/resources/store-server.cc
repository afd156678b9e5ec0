#include "machined/resources/store-server.h"

#include "common/base/fill-list.h"

namespace talos::machined {
namespace {

template <typename Base>
class Server : public Base {
 public:
  explicit Server(kj::Own<Store> store) : store(kj::mv(store)) {}

  kj::Promise<void> types(rpc::Resources::Server::TypesContext context) override {
    auto names = store->types();
    fillTexts(context.getResults().initTypes(names.size()), names);
    return kj::READY_NOW;
  }

  kj::Promise<void> get(rpc::Resources::Server::GetContext context) override {
    auto params = context.getParams();
    auto kind = params.getKind();
    auto resource = store->get(kind.getNamespace(), kind.getType(), params.getId());
    context.getResults(sizeOf(resource)).setResource(resource);
    return kj::READY_NOW;
  }

  kj::Promise<void> list(rpc::Resources::Server::ListContext context) override {
    auto kind = context.getParams().getKind();
    auto found = store->list(kind.getNamespace(), kind.getType());
    auto list = context.getResults().initResources(found.size());
    for (auto i : kj::indices(found)) list.setWithCaveats(i, found[i]);
    return kj::READY_NOW;
  }

  kj::Promise<void> watch(rpc::Resources::Server::WatchContext context) override {
    auto params = context.getParams();
    auto kind = params.getKind();
    auto running =
        store->watch(kind.getNamespace(), kind.getType(), params.getId(), params.getSink());
    context.releaseParams();
    return running;
  }

 protected:
  kj::Own<Store> store;

  static capnp::MessageSize sizeOf(rpc::Resource::Reader resource) {
    auto size = resource.totalSize();
    size.wordCount += 4;
    return size;
  }
};

class ReadingServer final : public Server<rpc::Resources::Server> {
 public:
  ReadingServer(kj::Own<Store> store, kj::Own<ClientCalls> calls)
      : Server(kj::mv(store)), calls(kj::mv(calls)) {}

  kj::Promise<void> watch(WatchContext context) override {
    auto slot = calls->enter(CallKind::kStream);
    return Server::watch(context).attach(kj::mv(slot));
  }

 private:
  kj::Own<ClientCalls> calls;
};

class WritingServer final : public Server<rpc::Store::Server> {
 public:
  using Server::Server;

  kj::Promise<void> put(PutContext context) override {
    context.getResults().setVersion(store->put(context.getParams().getResource()));
    return kj::READY_NOW;
  }
  kj::Promise<void> destroy(DestroyContext context) override {
    auto params = context.getParams();
    auto kind = params.getKind();
    store->destroy(kind.getNamespace(), kind.getType(), params.getId(), params.getOwner());
    return kj::READY_NOW;
  }
  kj::Promise<void> teardown(TeardownContext context) override {
    auto params = context.getParams();
    auto kind = params.getKind();
    context.getResults().setReady(
        store->teardown(kind.getNamespace(), kind.getType(), params.getId(), params.getOwner()));
    return kj::READY_NOW;
  }
  kj::Promise<void> addFinalizer(AddFinalizerContext context) override {
    auto params = context.getParams();
    auto kind = params.getKind();
    store->addFinalizer(kind.getNamespace(), kind.getType(), params.getId(), params.getFinalizer());
    return kj::READY_NOW;
  }
  kj::Promise<void> removeFinalizer(RemoveFinalizerContext context) override {
    auto params = context.getParams();
    auto kind = params.getKind();
    store->removeFinalizer(kind.getNamespace(), kind.getType(), params.getId(),
                           params.getFinalizer());
    return kj::READY_NOW;
  }
};

}  // namespace

rpc::Resources::Client serveResources(Store& store, bool sensitive, kj::Own<ClientCalls> calls) {
  return kj::heap<ReadingServer>(store.limited(Access::user(sensitive)), kj::mv(calls));
}

rpc::Store::Client serveStore(Store& store, unsigned uid) {
  return kj::heap<WritingServer>(store.limited(Access::ofUid(uid)));
}

}  // namespace talos::machined
