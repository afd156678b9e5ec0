#include "machined/kubernetes/etcd/etcd-run.h"

#include <kj/debug.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/base/lines.h"
#include "common/base/log.h"
#include "common/base/within.h"
#include "common/memory/zeroize.h"
#include "common/net/ip.h"
#include "common/text/texts.h"
#include "common/tls/authorities.h"
#include "machined/kubernetes/etcd/etcd-config.h"
#include "machined/system/secret-file-of-user.h"

namespace talos::machined {
namespace {

constexpr auto kAgain = 5 * kj::SECONDS, kLookAgain = 1 * kj::SECONDS;
constexpr auto kFiles = 1 * kj::MINUTES, kAnswers = 20 * kj::SECONDS;
// Two minutes for two locks, and some time for answers.
constexpr auto kTurn = 3 * kj::MINUTES, kStarts = 1 * kj::MINUTES;
constexpr kj::StringPtr kOwnProxy = "http://127.0.0.1:2382"_kj;  // kEtcdProxyPort
constexpr kj::StringPtr kUnpacked =
    "recovered"_kj;  // in the folder of `member`, until it is complete

kj::Maybe<ResourceOf<rpc::EtcdSpecSpec>> specOf(Store& store) {
  return store.tryGet<rpc::EtcdSpecSpec>(kEtcdId);
}

bool isThere(kj::StringPtr path) {
  return access(path.cStr(), F_OK) == 0;
}

// Returns true if etcd-supervisor has made the spec from the present config. The arguments do not
// show it: the spec has others beside those of the config, so a removed one looks like those.
bool isOfPresentConfig(Store& store, rpc::EtcdSpecSpec::Reader spec) {
  KJ_IF_MAYBE (config, store.tryGet<rpc::EtcdConfigSpec>(kEtcdId)) {
    return spec.getConfigVersion() == config->version();
  }
  return true;
}

// Returns what this node lacks for the present config, so that etcd keeps its settings of the
// config before; empty for nothing.
kj::String missingForConfig(Store& store) {
  KJ_IF_MAYBE (config, store.tryGet<rpc::EtcdConfigSpec>(kEtcdId)) {
    return kj::str(config->getWaitsFor());
  }
  return kj::String();
}

kj::String urlOfPeer(kj::StringPtr address) {
  return kj::str("https://", hostInUrl(address, kEtcdPeerPort));
}

// Returns true if the URL has an address that the config advertises and where etcd listens: etcd-
// supervisor keeps such a URL.
bool isServed(kj::StringPtr url, rpc::EtcdConfigSpec::Reader config) {
  auto listens = config.getListenAddresses();
  for (kj::StringPtr address : config.getAddresses()) {
    if (listens.size() > 0 && !contains(listens, address)) continue;
    if (url == urlOfPeer(address)) return true;
  }
  return false;
}

// Returns the message of the newest failure after `since`, by the clock of Service.uptime: a start
// that failed, or an end by itself.
kj::Maybe<kj::String> failureSince(rpc::Service::Reader service, uint64_t since) {
  kj::Maybe<kj::String> failure;
  auto before = rpc::ServiceState::INITIALIZED;
  for (auto event : service.getEvents()) {
    auto state = event.getState();
    bool ended = before == rpc::ServiceState::RUNNING && state == rpc::ServiceState::WAITING;
    if ((ended || state == rpc::ServiceState::FAILED) && event.getUptime() > since) {
      failure = kj::str(event.getMessage());
    }
    before = state;
  }
  return failure;
}

// Returns the text after "NAME":" in a line of JSON; empty without it.
kj::String textIn(kj::StringPtr line, kj::StringPtr name) {
  auto begin = strstr(line.cStr(), kj::str('"', name, "\":\"").cStr());
  if (begin == nullptr) return kj::String();
  begin += name.size() + 4;
  auto end = begin;
  while (*end != '\0' && *end != '"') end += *end == '\\' && end[1] != '\0' ? 2 : 1;
  return kj::heapString(begin, end - begin);
}

// Returns the words of a text of /proc, each of which ends with a zero.
kj::Vector<kj::StringPtr> zeroEnded(kj::StringPtr text) {
  kj::Vector<kj::StringPtr> words;
  for (size_t begin = 0; begin < text.size();) {
    words.add(text.begin() + begin);
    begin += words.back().size() + 1;
  }
  return words;
}

// Moves the unpacked snapshot into the data folder.
void moveRecovered(kj::StringPtr data, kj::StringPtr unpacked) {
  auto from = kj::str(unpacked, "/member"), to = kj::str(data, "/member");
  KJ_SYSCALL(rename(from.cStr(), to.cStr()), to);
  syncFolder(data);
}

}  // namespace

// The findings of a thread of the pool.
struct EtcdRun::Found final : public kj::Refcounted {
  AuthorityChange authorities = AuthorityChange::kNone;
};

kj::Vector<kj::String> etcdArguments(rpc::EtcdSpecSpec::Reader spec) {
  kj::Vector<kj::String> result;
  for (auto argument : spec.getArguments()) {
    result.add(kj::str("--", argument.getKey(), "=", argument.getValue()));
  }
  return result;
}

kj::Vector<kj::String> etcdVariables(rpc::EtcdSpecSpec::Reader spec) {
  kj::Vector<kj::String> result;
  if (spec.getProxy().size() == 0) return result;
  result.add(kj::str("HTTPS_PROXY=", spec.getProxy()));
  for (auto name : {"https_proxy", "NO_PROXY", "no_proxy"}) result.add(kj::str(name, "="));
  return result;
}

kj::Maybe<bool> runsAsWanted(kj::StringPtr cmdline, kj::StringPtr environ,
                             rpc::EtcdSpecSpec::Reader spec) {
  if (spec.getWaitsFor().size() > 0) return false;
  auto words = zeroEnded(cmdline);
  if (words.empty() || !words[0].endsWith("/etcd")) return nullptr;
  auto wanted = etcdArguments(spec);
  if (words.size() != wanted.size() + 1) return false;
  for (auto i : kj::indices(wanted)) {
    if (words[i + 1] != wanted[i]) return false;
  }
  // Only this proxy is compared: machine.env may have another one.
  bool proxied = contains(zeroEnded(environ), kj::str("HTTPS_PROXY=", kOwnProxy));
  return proxied == (spec.getProxy() == kOwnProxy);
}

AuthorityChange authorityChange(kj::StringPtr folder, rpc::EtcdSecretsSpec::Reader secrets) {
  auto next = kj::str(secrets.getCa().asChars());
  KJ_IF_MAYBE (present, tryReadFile(kj::str(folder, "/ca.crt"))) {
    if (*present == next) return AuthorityChange::kNone;
    auto own = tryReadFile(kj::str(folder, "/peer.crt")).orDefault(kj::String());
    bool both = pki::isSignedByAny(own, next) &&
                pki::isSignedByAny(kj::str(secrets.getEtcdPeer().getCrt().asChars()), *present);
    return both ? AuthorityChange::kOverlapping : AuthorityChange::kOther;
  }
  return AuthorityChange::kNone;
}

void writeEtcdFiles(kj::StringPtr folder, rpc::EtcdSecretsSpec::Reader secrets, unsigned uid) {
  // etcd is not root and must be able to enter the folder.
  makeDirectories(kj::heapString(folder.slice(0, KJ_ASSERT_NONNULL(folder.findLast('/')))), 0755);
  makeEtcdData(folder, uid);
  auto write = [&](kj::StringPtr name, capnp::Data::Reader content) {
    writeOwnedFile(kj::str(folder, "/", name), content, uid);
  };
  // The key comes first: between the two renames the pair does not match, and etcd retries.
  write("peer.key", secrets.getEtcdPeer().getKey());
  write("peer.crt", secrets.getEtcdPeer().getCrt());
  write("server.key", secrets.getServer().getKey());
  write("server.crt", secrets.getServer().getCrt());
  write("ca.crt", secrets.getCa());  // last, because it marks the others as written
}

void makeEtcdData(kj::StringPtr folder, unsigned uid) {
  makeDirectories(folder, 0700);
  KJ_SYSCALL(chmod(folder.cStr(), 0700), folder);
  KJ_SYSCALL(chown(folder.cStr(), uid, uid), folder);
}

PeerUrlState peerUrlState(Store& store) {
  auto config = store.tryGet<rpc::EtcdConfigSpec>(kEtcdId);
  auto spec = specOf(store);
  PeerUrlState state;
  if (config == nullptr || spec == nullptr) return state;
  if (KJ_ASSERT_NONNULL(spec).getWaitsFor().size() > 0) return state;
  auto missing = missingForConfig(store);
  if (missing.size() > 0) {
    state.waits = true;
    state.problem = kj::str("etcd waits for ", missing);
    return state;
  }
  auto addresses = KJ_ASSERT_NONNULL(config).getAddresses();
  if (addresses.size() == 0) return state;
  state.known = false;
  KJ_IF_MAYBE (status, store.tryGet<rpc::EtcdStatusSpec>(kEtcdId)) {
    if (status->getMember().size() == 0) return state;
    KJ_IF_MAYBE (member, store.tryGet<rpc::EtcdMemberSpec>(status->getMember())) {
      state.known = true;
      auto urls = member->getPeerUrls();
      auto url = urlOfPeer(addresses[0]), present = kj::strArray(urls, ", ");
      bool served = urls.size() == 1 && isServed(urls[0], KJ_ASSERT_NONNULL(config));
      if (served || present == url) return state;
      kj::StringPtr cause = status->getMessage();
      state.problem = kj::str("the members of etcd call this one at ", present, ", and not yet at ",
                              url, cause.size() > 0 ? ": " : "", cause);
    }
  }
  return state;
}

EtcdRun::EtcdRun(Dependencies d)
    : deps(kj::mv(d)), timer(deps.timer), failedStart(deps.supervisor, timer, kEtcdService) {}

void EtcdRun::follow() {
  specs = deps.store.onChange<rpc::EtcdSpecSpec>([this] { changed.raise(); });
  secrets = deps.store.onChange<rpc::EtcdSecretsSpec>([this] { changed.raise(); });
  services = deps.store.onChange<rpc::ServiceSpec>([this] { changed.raise(); });
  watching = watch().eagerlyEvaluate(nullptr);
}

kj::Promise<void> EtcdRun::watch() {
  for (;;) {
    auto next = changed.wait();
    kj::Maybe<kj::Duration> again;
    try {
      again = compare();
      co_await within(timer, kFiles, refreshFiles(),
                      kj::str("the files of etcd were not written within 1 min"));
    } catch (const kj::Exception& e) {
      again = kAgain;
      log::warn("cannot check etcd; retry in 5 s", {{"error", messageOf(e)}});
    }
    KJ_IF_MAYBE (pause, again) next = next.exclusiveJoin(timer.afterDelay(*pause));
    co_await next;
  }
}

kj::Promise<kj::Maybe<kj::String>> EtcdRun::notInEffect(kj::Duration timeout,
                                                        kj::Function<kj::String()> words) {
  auto until = timer.now() + timeout;
  kj::Maybe<uint64_t> since;  // time since when the spec is that of the config
  for (;;) {
    auto next = changed.next();
    auto spec = specOf(deps.store);
    if (spec == nullptr) co_return nullptr;
    auto& wanted = KJ_ASSERT_NONNULL(spec);
    if (wanted.getWaitsFor().size() > 0) co_return nullptr;
    capnp::MallocMessageBuilder scratch;
    auto service = scratch.initRoot<rpc::Service>();
    deps.supervisor.fill(kEtcdService, service);
    auto missing = missingForConfig(deps.store);
    if (missing.size() > 0 || !isOfPresentConfig(deps.store, wanted)) {
      since = nullptr;
    } else if (since == nullptr) {
      since = service.getUptime();
    }
    KJ_IF_MAYBE (taken, since) {
      KJ_IF_MAYBE (message, failureSince(service, *taken)) {
        auto own = words();
        co_return kj::str("etcd does not start: ", own.size() > 0 ? own : *message);
      }
      bool runs = service.getPid() != 0 && asWanted(service.getPid()).orDefault(false);
      if (runs && deps.supervisor.isUp(kEtcdService)) co_return nullptr;
    }
    if (timer.now() >= until) {
      if (missing.size() > 0) co_return kj::str("etcd waits for ", missing);
      break;
    }
    co_await timer.afterDelay(kj::min(kLookAgain, until - timer.now())).exclusiveJoin(kj::mv(next));
  }
  if (refusal.size() > 0) co_return kj::str("etcd cannot be restarted yet: ", refusal);
  auto waited =
      timeout >= 1 * kj::SECONDS ? kj::str(" after ", timeout / kj::SECONDS, " s") : kj::String();
  co_return kj::str("etcd does not run with it", waited);
}

unsigned EtcdRun::pid() {
  capnp::MallocMessageBuilder scratch;
  auto service = scratch.initRoot<rpc::Service>();
  deps.supervisor.fill(kEtcdService, service);
  return service.getPid();
}

// Returns nullptr if the process is not etcd yet, or not any more.
kj::Maybe<bool> EtcdRun::asWanted(unsigned pid) {
  KJ_IF_MAYBE (spec, specOf(deps.store)) {
    auto folder = kj::str(deps.processes, "/", pid);
    KJ_IF_MAYBE (cmdline, tryReadFile(kj::str(folder, "/cmdline"))) {
      auto environ = tryReadFile(kj::str(folder, "/environ")).orDefault(kj::String());
      return runsAsWanted(*cmdline, environ, *spec);
    }
  }
  return nullptr;
}

// Without a spec there is nothing to compare: etcd-supervisor has not decided yet.
kj::Maybe<kj::Duration> EtcdRun::compare() {
  KJ_IF_MAYBE (spec, specOf(deps.store)) {
    bool loaded = false;
    for (auto& id : deps.supervisor.ids()) loaded = loaded || id == kEtcdService;
    if (!loaded) return nullptr;
    capnp::MallocMessageBuilder scratch;
    auto service = scratch.initRoot<rpc::Service>();
    deps.supervisor.fill(kEtcdService, service);
    if (service.getState() == rpc::ServiceState::FAILED) return failedStart.again();
    if (service.getPid() == 0) {
      // A failed start causes no event.
      if (spec->getWaitsFor().size() == 0) return kLookAgain;
      return nullptr;
    }
    KJ_IF_MAYBE (same, asWanted(service.getPid())) {
      failedStart.works();
      if (*same) return nullptr;
      if (spec->getWaitsFor().size() > 0) {
        restart("it must not run any more");
      } else {
        askToRestart("its settings have changed");
      }
    } else {
      return kLookAgain;
    }
  }
  return nullptr;
}

void EtcdRun::restart(kj::StringPtr reason) {
  log::info(kj::str("restarting etcd: ", reason));
  deps.supervisor.restart(kEtcdService).detach([](kj::Exception&& e) {
    log::warn("cannot restart etcd", {{"error", messageOf(e)}});
  });
}

void EtcdRun::askToRestart(kj::StringPtr reason) {
  if (reruns) return;
  reruns = true;
  rerunning = rerun(kj::str(reason)).eagerlyEvaluate([](kj::Exception&& e) {
    log::warn("cannot restart etcd; retrying", {{"error", messageOf(e)}});
  });
}

kj::Promise<void> EtcdRun::rerun(kj::String reason) {
  KJ_DEFER({
    reruns = false;
    changed.raise();
  });
  kj::Maybe<rpc::EtcdTurn::Client> turn;
  kj::Maybe<kj::String> refused;
  using Answer = capnp::Response<rpc::EtcdSupervisor::RerunResults>;
  co_await within(timer, kTurn, kj::Promise<Answer>(deps.membership.rerunRequest().send()),
                  kj::str("no answer of etcd-supervisor within 3 min"))
      .then([&](Answer&& answer) { turn = answer.getTurn(); },
            [&](kj::Exception&& e) { refused = kj::str(messageOf(e)); });
  KJ_IF_MAYBE (problem, refused) {
    if (*problem != refusal) {
      log::warn("etcd cannot be restarted yet; retrying", {{"error", *problem}});
    }
    refusal = kj::mv(*problem);
    co_await timer.afterDelay(kAgain);
    co_return;
  }
  refusal = nullptr;
  auto before = pid();
  if (before == 0) co_return;
  log::info(kj::str("restarting etcd: ", reason));
  co_await deps.supervisor.restart(kEtcdService);
  // Later callers must see the restart in progress.
  auto until = timer.now() + kStarts;
  for (;;) {
    auto next = changed.next();
    auto now = pid();
    if (now != 0 && now != before && asWanted(now).orDefault(false)) co_return;
    if (timer.now() >= until) break;
    co_await timer.afterDelay(kLookAgain).exclusiveJoin(kj::mv(next));
  }
  log::warn("etcd does not run 1 min after its restart");
}

// Runs work in order; each piece runs to its end.
kj::Promise<void> EtcdRun::inOrder(kj::Function<void()> work) {
  auto next =
      files.addBranch()
          .then([this, work = kj::mv(work)]() mutable { return deps.blocking(kj::mv(work)); })
          .fork();
  files = next.addBranch().catch_([](kj::Exception&&) {}).fork();
  return next.addBranch();
}

kj::Promise<void> EtcdRun::writeFiles() {
  KJ_IF_MAYBE (secrets, deps.store.tryGet<rpc::EtcdSecretsSpec>(kEtcdId)) {
    auto copy = kj::heap<SecretMessage>();
    copy->setRoot(static_cast<const rpc::EtcdSecretsSpec::Reader&>(*secrets));
    co_await inOrder([this, copy = kj::mv(copy)]() mutable {
      writeEtcdFiles(deps.pki, copy->getRoot<rpc::EtcdSecretsSpec>().asReader(), deps.uid);
    });
  }
}

kj::Promise<void> EtcdRun::refreshFiles() {
  KJ_IF_MAYBE (secrets, deps.store.tryGet<rpc::EtcdSecretsSpec>(kEtcdId)) {
    // Before etcd's first start the folder may be missing.
    if (pid() == 0) co_return;
    auto copy = kj::heap<SecretMessage>();
    copy->setRoot(static_cast<const rpc::EtcdSecretsSpec::Reader&>(*secrets));
    auto found = kj::refcounted<Found>();
    co_await inOrder([this, copy = kj::mv(copy), found = kj::addRef(*found)]() mutable {
      auto spec = copy->getRoot<rpc::EtcdSecretsSpec>().asReader();
      found->authorities = authorityChange(deps.pki, spec);
      if (found->authorities == AuthorityChange::kNone) writeEtcdFiles(deps.pki, spec, deps.uid);
    });
    // etcd reads the CA only when it starts; all files are written before that.
    if (found->authorities == AuthorityChange::kNone || pid() == 0) co_return;
    if (found->authorities == AuthorityChange::kOverlapping) {
      askToRestart("the CAs that it accepts have changed");
    } else {
      // The other members have the old CA until they restart, so they cannot give a turn.
      restart("its CA has changed");
    }
  }
}

kj::Promise<void> EtcdRun::wanted(kj::Function<void(kj::StringPtr)>& note) {
  kj::String shown;
  for (;;) {
    auto next = changed.next();
    kj::String why = kj::str("etcd-supervisor to decide");
    KJ_IF_MAYBE (spec, specOf(deps.store)) why = kj::str(spec->getWaitsFor());
    if (why.size() == 0 && deps.store.tryGet<rpc::EtcdSecretsSpec>(kEtcdId) == nullptr) {
      why = kj::str("the certificates of etcd");
    }
    if (why.size() == 0) co_return;
    if (why != shown) note(kj::str("Waiting for ", why));
    shown = kj::mv(why);
    co_await next;
  }
}

kj::Promise<void> EtcdRun::prepare(kj::Function<void(kj::StringPtr)> note) {
  for (;;) {
    co_await wanted(note);
    kj::Maybe<kj::String> problem;
    co_await makeReady().catch_([&](kj::Exception&& e) { problem = kj::str(messageOf(e)); });
    KJ_IF_MAYBE (p, problem) {
      note(kj::str(*p, "; retry in ", kAgain / kj::SECONDS, " s"));
    } else {
      co_return;
    }
    co_await timer.afterDelay(kAgain);
  }
}

kj::Promise<void> EtcdRun::makeReady() {
  co_await inOrder([this]() { makeEtcdData(deps.data, deps.uid); });
  co_await writeFiles();
  co_await recover();
}

kj::Promise<void> EtcdRun::recover() {
  // A copy, because the store's record may change after the first wait.
  capnp::MallocMessageBuilder copy;
  KJ_IF_MAYBE (found, specOf(deps.store)) {
    copy.setRoot(static_cast<const rpc::EtcdSpecSpec::Reader&>(*found));
  }
  auto spec = copy.getRoot<rpc::EtcdSpecSpec>().asReader();
  auto snapshot = kj::str(spec.getRecoverFrom());
  auto unpacked = kj::str(deps.data, "/", kUnpacked);
  bool needed = snapshot.size() > 0 && !isThere(kj::str(deps.data, "/member"));
  co_await inOrder([path = kj::str(unpacked)]() { removeTree(path); });
  if (!needed) co_return;
  kj::Maybe<kj::String> problem;
  co_await deps.unpack(spec, snapshot, unpacked).catch_([&](kj::Exception&& e) {
    problem = kj::str(messageOf(e));
  });
  KJ_IF_MAYBE (why, problem) {
    log::warn("cannot unpack the snapshot", {{"error", *why}});
    co_await inOrder([path = kj::str(unpacked)]() { removeTree(path); });
    auto request = deps.membership.recoveryFailedRequest();
    request.setError(*why);
    co_await within(timer, kAnswers, request.send().ignoreResult(),
                    kj::str("no answer of etcd-supervisor within 20 s"));
    fail(ErrorKind::kInvalidArgument, kj::str("cannot restore the snapshot: ", *why));
  }
  co_await inOrder(
      [data = kj::str(deps.data), unpacked = kj::mv(unpacked), snapshot = kj::mv(snapshot)]() {
        moveRecovered(data, unpacked);
        removeTree(unpacked);
        unlink(snapshot.cStr());
      });
}

kj::StringPtr EtcdRun::image() {
  if (chosen == nullptr) chosen = tryReadFile(deps.chosenImage);
  KJ_IF_MAYBE (c, chosen) return *c;
  KJ_IF_MAYBE (config, deps.store.tryGet<rpc::EtcdConfigSpec>(kEtcdId)) {
    writeFileAtomically(deps.chosenImage, config->getImage().asArray(), 0644);
    return chosen.emplace(kj::str(config->getImage()));
  }
  return "";
}

kj::Array<kj::String> EtcdRun::arguments() {
  KJ_IF_MAYBE (spec, specOf(deps.store)) {
    if (spec->getWaitsFor().size() == 0) return etcdArguments(*spec).releaseAsArray();
  }
  // The spec has changed meanwhile. Without arguments etcd would make a new cluster.
  fail(ErrorKind::kUnavailable, "etcd must not run any more");
}

kj::String errorOfEtcd(kj::ArrayPtr<const char> log) {
  kj::String newest;
  for (auto bytes : Lines(log)) {
    auto line = kj::heapString(bytes);
    auto has = [&](kj::StringPtr part) { return strstr(line.cStr(), part.cStr()) != nullptr; };
    if (has("\"level\":\"fatal\"") || has("\"level\":\"error\"")) {
      auto message = textIn(line, "msg"), error = textIn(line, "error");
      newest = kj::str(message, message.size() > 0 && error.size() > 0 ? ": " : "", error);
    } else if (has("flag provided but not defined") || has("invalid value") ||
               line.startsWith("panic: ")) {
      newest = kj::mv(line);
    }
  }
  return newest;
}

}  // namespace talos::machined
