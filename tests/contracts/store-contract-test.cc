// The store of machined, and the model of it that tests of other programs use: the same calls get
// the same answers, by what the callers see.
#include <gtest/gtest.h>

#include <random>

#include "rpc/feature-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"
#include "tests/contracts/schema-comments.h"
#include "tests/models/test-machined.h"

namespace talos {
namespace {

constexpr unsigned kStranger = 65'534;

struct RealStore {
  Registry registry;
  machined::Store store{registry, kj::nullClock()};
};

// machined's real store and server, reached through a socket, for callers of one uid.
class RealMachined : private RealStore, public MachinedSocket {
 public:
  RealMachined(kj::AsyncIoContext& io, unsigned uid)
      : MachinedSocket(io, uid,
                       [this](unsigned caller) { return machined::serveStore(store, caller); }) {}
};

// Records the changes that a watch reports, without times.
struct Seen {
  std::string text;
  bool end = false;

  void add(const char* event, rpc::Resource::Reader resource) {
    auto m = resource.getMetadata();
    if (m.getId() == "end") end = true;
    text += kj::str(event, " ", m.getNamespace(), "/", m.getType(), "/", m.getId(), "@",
                    m.getVersion(), " of ", m.getOwner(),
                    m.getPhase() == rpc::Metadata::Phase::TEARING_DOWN ? " ends" : "", " [",
                    kj::strArray(m.getFinalizers(), ","), "]\n")
                .cStr();
  }
};

class SeeingSink final : public rpc::ResourceSink::Server {
 public:
  explicit SeeingSink(Seen& seen) : seen(seen) {}
  kj::Promise<void> snapshot(SnapshotContext context) override {
    seen.text += "snapshot\n";
    for (auto one : context.getParams().getResources()) seen.add("  has", one);
    return kj::READY_NOW;
  }
  kj::Promise<void> changes(ChangesContext context) override {
    constexpr const char* kEvents[] = {"created", "updated", "destroyed"};
    for (auto one : context.getParams().getChanges()) {
      seen.add(kEvents[unsigned(one.getEvent())], one.getResource());
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> lagged(LaggedContext) override {
    seen.text += "lagged\n";
    return kj::READY_NOW;
  }

 private:
  Seen& seen;
};

using Observed = std::map<std::string, std::set<ErrorKind>>;  // the kinds of each method's errors

// One caller, and the answers that it got.
template <typename Machined>
struct Conversation {
  kj::AsyncIoContext& io;
  Machined& machined;
  Observed& observed;
  std::string text;
  kj::Maybe<kj::Own<Connection>> connection;

  void call(unsigned uid) {
    machined.change(uid);
    connection =
        wait(connectUnix(*io.lowLevelProvider, io.provider->getTimer(), machined.socket()));
  }
  rpc::Store::Client store() {
    auto bootstrap = KJ_ASSERT_NONNULL(connection)->bootstrap().template castAs<rpc::Machined>();
    return bootstrap.storeRequest().send().getStore();
  }
  template <typename T>
  T wait(kj::Promise<T> promise) {
    return io.provider->getTimer()
        .timeoutAfter(20 * kj::SECONDS, kj::mv(promise))
        .wait(io.waitScope);
  }
  // Sends it, and writes down its answer by `show`.
  template <typename Request, typename F>
  void ask(const char* method, Request&& request, F&& show) {
    std::string answer;
    auto failure = kj::runCatchingExceptions([&] {
      answer =
          show(wait(request.send().then([](auto&& response) { return kj::mv(response); }))).cStr();
    });
    KJ_IF_MAYBE (e, failure) {
      observed[method].insert(kindOf(*e));
      answer = kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e)).cStr();
    }
    text += std::string(method) + ": " + answer + "\n";
  }

  struct Named {
    kj::StringPtr ns, type, id;
  };
  template <typename Request>
  static void name(Request& request, const Named& named) {
    auto kind = request.initKind();
    kind.setNamespace(named.ns);
    kind.setType(named.type);
    request.setId(named.id);
  }
  void put(const Named& named, uint64_t version, kj::StringPtr owner, kj::StringPtr spec) {
    auto request = store().putRequest();
    auto resource = request.initResource();
    auto metadata = resource.initMetadata();
    metadata.setNamespace(named.ns);
    metadata.setType(named.type);
    metadata.setId(named.id);
    metadata.setVersion(version);
    metadata.setOwner(owner);
    // The first field of each of these types is a text.
    if (spec.size() > 0)
      resource.getSpec().template initAs<rpc::HostnameSpecSpec>().setHostname(spec);
    ask("put", request, [](auto answer) { return kj::str(answer.getVersion()); });
  }
  void destroy(const Named& named, kj::StringPtr owner) {
    auto request = store().destroyRequest();
    name(request, named);
    request.setOwner(owner);
    ask("destroy", request, [](auto) { return kj::str("done"); });
  }
  void teardown(const Named& named, kj::StringPtr owner) {
    auto request = store().teardownRequest();
    name(request, named);
    request.setOwner(owner);
    ask("teardown", request, [](auto answer) { return kj::str(answer.getReady()); });
  }
  void addFinalizer(const Named& named, kj::StringPtr finalizer) {
    auto request = store().addFinalizerRequest();
    name(request, named);
    request.setFinalizer(finalizer);
    ask("addFinalizer", request, [](auto) { return kj::str("done"); });
  }
  void removeFinalizer(const Named& named, kj::StringPtr finalizer) {
    auto request = store().removeFinalizerRequest();
    name(request, named);
    request.setFinalizer(finalizer);
    ask("removeFinalizer", request, [](auto) { return kj::str("done"); });
  }
  void get(const Named& named) {
    auto request = store().getRequest();
    name(request, named);
    ask("get", request, [](auto answer) { return shown(answer.getResource()); });
  }
  void list(const Named& named) {
    auto request = store().listRequest();
    auto kind = request.initKind();
    kind.setNamespace(named.ns);
    kind.setType(named.type);
    ask("list", request, [](auto answer) {
      auto all = KJ_MAP(one, answer.getResources()) {
        return shown(one);
      };
      return kj::strArray(all, "; ");
    });
  }
  static kj::String shown(rpc::Resource::Reader resource) {
    auto copy = kj::heap<capnp::MallocMessageBuilder>();
    copy->setRoot(resource.getMetadata());
    return kj::str(copy->template getRoot<rpc::Metadata>().asReader(), " ",
                   resource.getSpec().getAs<rpc::HostnameSpecSpec>().getHostname());
  }
  // Rejects, or continues until it is dropped.
  kj::Promise<void> watch(const Named& named, Seen& seen) {
    auto request = store().watchRequest();
    name(request, named);
    request.setSink(kj::heap<SeeingSink>(seen));
    return request.send().ignoreResult().eagerlyEvaluate(nullptr);
  }
};

constexpr kj::StringPtr kTypes[] = {"HostnameSpecs.net.talos.dev"_kj,
                                    "HostnameSpec"_kj,
                                    "ManifestStatuses.kubernetes.talos.dev"_kj,
                                    "RootSecrets.secrets.talos.dev"_kj,
                                    "Nothing.talos.dev"_kj,
                                    "as"_kj};
constexpr kj::StringPtr kSpaces[] = {""_kj, ""_kj, ""_kj, "extras"_kj, "meta"_kj, "nowhere"_kj};
constexpr unsigned kUids[] = {0, 0, kKubedUid, kKubedUid, kStranger};

template <typename List>
auto& anyOf(std::mt19937& random, const List& list) {
  return list[random() % std::size(list)];
}

// Any calls of callers with any rights, in an order that follows from the seed.
template <typename C>
void anyCalls(C& c, std::mt19937& random) {
  constexpr kj::StringPtr kIds[] = {"a"_kj, "a"_kj, "b"_kj, ""_kj, "wrong\n"_kj};
  constexpr kj::StringPtr kOwners[] = {"one"_kj, "one"_kj, "two"_kj};
  constexpr kj::StringPtr kSpecs[] = {"x"_kj, "y"_kj, "z"_kj, ""_kj};
  for (unsigned i = 0; i < 60; ++i) {
    if (i % 6 == 0) c.call(anyOf(random, kUids));
    typename C::Named named{anyOf(random, kSpaces), anyOf(random, kTypes), anyOf(random, kIds)};
    auto owner = anyOf(random, kOwners);
    switch (random() % 10) {
      case 0:
        c.destroy(named, owner);
        break;
      case 1:
        c.teardown(named, owner);
        break;
      case 2:
        c.addFinalizer(named, anyOf(random, kIds));
        break;
      case 3:
        c.removeFinalizer(named, anyOf(random, kIds));
        break;
      case 4:
        c.get(named);
        break;
      case 5:
        c.list(named);
        break;
      default:
        c.put(named, random() % 4, owner, anyOf(random, kSpecs));
    }
  }
}

// Calls that are seldom among any others: each error of each method at least once.
template <typename C>
void chosenCalls(C& c) {
  using Named = typename C::Named;
  Named name{"", kTypes[0], "n"}, status{"", kTypes[2], "s"};
  c.call(0);
  c.put(name, 0, "one", "x");
  c.put(name, 0, "one", "x");
  c.put(name, 1, "two", "y");
  c.put(name, 7, "one", "y");
  c.put(name, 1, "one", "x");
  c.put(name, 1, "one", "y");
  c.put({"", kTypes[0], "gone"}, 3, "one", "y");
  c.addFinalizer(name, "f");
  c.addFinalizer(name, "f");
  c.destroy(name, "one");
  c.teardown(name, "one");
  c.teardown(name, "one");
  c.put(name, 5, "one", "z");
  c.put(name, 4, "one", "z");
  c.addFinalizer(name, "g");
  c.addFinalizer(name, "");
  c.addFinalizer({"", kTypes[0], "gone"}, "f");
  c.removeFinalizer(name, "none");
  c.removeFinalizer(name, "f");
  c.removeFinalizer({"", kTypes[0], "gone"}, "f");
  c.destroy(name, "two");
  c.destroy(name, "one");
  c.destroy(name, "one");
  c.teardown(name, "one");
  c.call(kKubedUid);
  c.put(name, 0, "one", "x");
  c.get({"", kTypes[3], "os"});
  c.list({"", kTypes[3], ""});
  c.addFinalizer(status, "f");
  c.removeFinalizer(status, "f");
  c.destroy(name, "one");
  c.teardown(name, "one");
  auto large = kj::heapString(3u << 20), larger = kj::heapString(5u << 20);
  memset(large.begin(), 'x', large.size());
  memset(larger.begin(), 'x', larger.size());
  for (auto id : {"s"_kj, "t"_kj, "u"_kj}) c.put({"", kTypes[2], id}, 0, "one", large);
  c.put({"", kTypes[2], "v"}, 0, "one", larger);
}

template <typename Machined>
std::string everything(unsigned seed, Observed& observed) {
  auto io = kj::setupAsyncIo();
  Machined machined(io, 0);
  machined.start();
  Conversation<Machined> c{io, machined, observed, {}, {}}, watcher{io, machined, observed, {}, {}};
  watcher.call(0);
  Seen seen[3];
  kj::Vector<kj::Promise<void>> watches;
  watches.add(watcher.watch({"", kTypes[0], ""}, seen[0]));
  watches.add(watcher.watch({"", kTypes[2], ""}, seen[1]));
  watches.add(watcher.watch({"", kTypes[0], "a"}, seen[2]));
  watcher.list({"", kTypes[0], ""});  // a round trip after the watches
  std::mt19937 random(seed);
  if (seed == 0) {
    chosenCalls(c);
  } else {
    anyCalls(c, random);
  }
  c.call(0);
  c.put({"", kTypes[0], "end"}, 0, "one", "x");
  c.put({"", kTypes[2], "end"}, 0, "one", "x");
  auto deadline = io.provider->getTimer().now() + 20 * kj::SECONDS;
  while (!(seen[0].end && seen[1].end) && io.provider->getTimer().now() < deadline) {
    c.wait(io.provider->getTimer().afterDelay(1 * kj::MILLISECONDS));
  }
  EXPECT_TRUE(seen[0].end && seen[1].end) << "a watch does not show what was written";
  for (auto uid : {kKubedUid, kStranger}) {
    c.call(uid);
    for (auto type : kTypes) {
      Seen snapshot;
      auto watch = c.watch({"", type, ""}, snapshot);
      while (snapshot.text.empty() && !watch.poll(io.waitScope)) {
        c.wait(io.provider->getTimer().afterDelay(1 * kj::MILLISECONDS));
      }
      if (!snapshot.text.empty()) continue;
      auto failure = kj::runCatchingExceptions([&] { watch.wait(io.waitScope); });
      KJ_IF_MAYBE (e, failure) {
        observed["watch"].insert(kindOf(*e));
        c.text += kj::str("watch: ", nameOf(kindOf(*e)), ": ", messageOf(*e), "\n").cStr();
      }
    }
  }
  machined.stop();
  for (auto& watch : watches) {
    auto failure = kj::runCatchingExceptions([&] { c.wait(kj::mv(watch)); });
    c.text += failure == nullptr
                  ? "ended\n"
                  : std::string(nameOf(kindOf(KJ_ASSERT_NONNULL(failure))).cStr()) + "\n";
  }
  machined.start();
  c.call(0);
  c.list({"", kTypes[0], ""});
  return c.text + seen[0].text + seen[1].text + seen[2].text;
}

// Catches: a model that lets a caller do what machined refuses, or refuses it with another error;
// or whose versions, order of a watch, or ends with connections differ from machined's.
TEST(StoreContract, TheModelAnswersAsMachinedDoes) {
  for (unsigned seed = 0; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Observed real, model;
    ASSERT_EQ(everything<RealMachined>(seed, real), everything<ModelMachined>(seed, model));
    EXPECT_EQ(real, model);
  }
}

// Catches: an error that a method of the store can end with and that the documents do not name; one
// that they name and that does not happen.
TEST(StoreContract, TheErrorsAreThoseOfTheDocuments) {
  Observed observed;
  for (unsigned seed = 0; seed <= 10; ++seed) everything<RealMachined>(seed, observed);
  SchemaComments comments(TALOS_SOURCE_DIR);
  auto schema = capnp::Schema::from<rpc::Store>();
  auto named = [&](const char* method) {
    return errorsNamedIn(comments.of(schema.getMethodByName(method)));
  };
  auto ofList = named("list");
  for (auto method :
       {"list", "get", "watch", "put", "destroy", "teardown", "addFinalizer", "removeFinalizer"}) {
    SCOPED_TRACE(method);
    auto wanted = named(method);
    wanted.insert(ofList.begin(), ofList.end());  // each names a kind of resources
    EXPECT_EQ(wanted, observed[method]);
  }
}

}  // namespace
}  // namespace talos
