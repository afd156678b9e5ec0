#include "machined/kubelet/kubelet-run.h"

#include <errno.h>
#include <kj/debug.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/lines.h"
#include "common/base/log.h"
#include "common/tls/pki.h"
#include "machined/kubelet/node-drain.h"

namespace talos::machined {
namespace {

constexpr auto kAgain = 5 * kj::SECONDS, kLookAgain = 1 * kj::SECONDS;

// What is behind the first line of YAML with this key, however deep it is.
kj::String valueOf(kj::StringPtr text, kj::StringPtr key) {
  auto wanted = kj::str(key, ": ");
  for (auto line : Lines(text)) {
    while (line.size() > 0 && (line[0] == ' ' || line[0] == '-')) line = line.slice(1, line.size());
    if (line.size() < wanted.size() || line.slice(0, wanted.size()) != wanted.asArray()) continue;
    auto value = line.slice(wanted.size(), line.size());
    if (value.size() >= 2 && (value[0] == '"' || value[0] == '\'')) {
      value = value.slice(1, value.size() - 1);
    }
    return kj::heapString(value);
  }
  return kj::String();
}

// Of the certificate by which it is known to the API server; empty without one that can be read.
kj::String registeredAs(kj::StringPtr path) {
  kj::String name;
  KJ_IF_MAYBE (pair, tryReadFile(path)) {
    KJ_DEFER(zeroize(pair->asArray()));
    auto problem = kj::runCatchingExceptions([&]() { name = pki::inspect(*pair).commonName; });
    (void)problem;  // it is renewed
  }
  return name;
}

void writeIfOther(kj::StringPtr path, kj::ArrayPtr<const char> content, mode_t mode) {
  KJ_IF_MAYBE (before, tryReadFile(path)) {
    KJ_DEFER(zeroize(before->asArray()));
    if (before->asArray() == content) return;
  }
  writeFileAtomically(path, content, mode);
}

void removeFile(kj::StringPtr path) {
  if (unlink(path.cStr()) < 0 && errno != ENOENT) KJ_FAIL_SYSCALL("unlink", errno, path);
}

void joinAnewIfElsewhere(kj::StringPtr root, rpc::KubeletSpecSpec::Reader spec,
                         rpc::KubeletSecretsSpec::Reader secrets) {
  auto path = kj::str(root, kKubeletKubeconfig), pair = kj::str(root, kKubeletClientPair);
  KJ_IF_MAYBE (there, tryReadFile(path)) {
    KJ_DEFER(zeroize(there->asArray()));
    auto name = registeredAs(pair);
    bool same = name.size() == 0 || name == kj::str("system:node:", spec.getNodename());
    if (same && leadsHere(*there, secrets.getBootstrapKubeconfig())) return;
    removeFile(path);
    removeFile(pair);
  }
}

}  // namespace

bool leadsHere(kj::StringPtr kubeconfig, kj::StringPtr bootstrapKubeconfig) {
  for (auto key : {"server"_kj, "certificate-authority-data"_kj}) {
    if (valueOf(kubeconfig, key) != valueOf(bootstrapKubeconfig, key)) return false;
  }
  return true;
}

kj::String serverOf(kj::StringPtr kubeconfig) {
  return valueOf(kubeconfig, "server");
}

void writeKubeletFiles(kj::StringPtr root, rpc::KubeletSpecSpec::Reader spec,
                       rpc::KubeletSecretsSpec::Reader secrets) {
  makeDirectories(kj::str(root, "/etc/kubernetes/manifests"), 0755);
  makeDirectories(kj::str(root, "/etc/kubernetes/pki"), 0755);
  for (auto path : {"/var/lib/kubelet"_kj, "/var/lib/containerd"_kj, "/var/log/pods"_kj,
                    "/var/log/containers"_kj, "/usr/libexec/kubernetes"_kj, "/etc/cni/net.d"_kj,
                    "/opt/cni/bin"_kj}) {
    makeDirectories(kj::str(root, path), 0755);
  }
  for (auto mount : spec.getExtraMounts()) {
    if (mount.getSource().startsWith("/")) {
      struct stat found;
      auto source = kj::str(root, mount.getSource());
      if (stat(source.cStr(), &found) != 0) makeDirectories(source, 0700);
    }
  }
  joinAnewIfElsewhere(root, spec, secrets);
  // Root of the node only; the CA is no secret.
  writeIfOther(kj::str(root, kKubeletCa), secrets.getCa().asChars(), 0500);
  writeIfOther(kj::str(root, kKubeletBootstrap), secrets.getBootstrapKubeconfig(), 0600);
  writeIfOther(kj::str(root, kKubeletConfig), spec.getConfig(), 0600);
}

kj::Maybe<KubeletRun::Wanted> KubeletRun::wanted() {
  KJ_IF_MAYBE (spec, deps.store.tryGet<rpc::KubeletSpecSpec>(kKubeletId)) {
    KJ_IF_MAYBE (secrets, deps.store.tryGet<rpc::KubeletSecretsSpec>(kKubeletId)) {
      return Wanted(*spec, *secrets);
    }
  }
  return nullptr;
}

kj::Promise<KubeletRun::Wanted> KubeletRun::awaitWanted(kj::Function<void(kj::StringPtr)>& note) {
  bool told = false;
  for (;;) {
    auto next = changed.next();
    KJ_IF_MAYBE (what, wanted()) co_return kj::mv(*what);
    if (!told) note("Waiting for the name and the addresses of the node");
    told = true;
    co_await next;
  }
}

kj::Promise<void> KubeletRun::prepare(kj::Function<void(kj::StringPtr)> note) {
  for (;;) {
    auto what = co_await awaitWanted(note);
    kj::Maybe<kj::String> problem;
    co_await makeReady(kj::mv(what)).catch_([&](kj::Exception&& e) {
      problem = kj::str(messageOf(e));
    });
    KJ_IF_MAYBE (p, problem) {
      note(kj::str(*p, "; retry in ", kAgain / kj::SECONDS, " s"));
    } else {
      co_return;
    }
    co_await timer.afterDelay(kAgain);
  }
}

kj::Promise<void> KubeletRun::makeReady(Wanted what) {
  auto digest = what.digest();
  auto copy = what.clone();
  prepared = kj::mv(what);
  co_await deps.blocking([this, digest = kj::mv(digest), copy = kj::mv(copy)]() {
    writeKubeletFiles(deps.root, copy.spec(), copy.secrets());
    writeFileAtomically(deps.startedWith, digest, 0600);
  });
}

ContainerSpec KubeletRun::container() {
  KJ_IF_MAYBE (what, prepared) {
    auto spec = kubeletContainer(what->spec());
    spec.capabilities = capabilitiesHere();
    return spec;
  }
  fail(ErrorKind::kUnavailable, "what the kubelet is to run with is not known yet");
}

void KubeletRun::follow() {
  specs = deps.store.onChange<rpc::KubeletSpecSpec>([this] { changed.raise(); });
  secrets = deps.store.onChange<rpc::KubeletSecretsSpec>([this] { changed.raise(); });
  services = deps.store.onChange<rpc::ServiceSpec>([this] { changed.raise(); });
  watching = watch().eagerlyEvaluate(nullptr);
}

kj::Promise<void> KubeletRun::watch() {
  for (;;) {
    auto next = changed.wait();
    kj::Maybe<kj::Duration> again;
    try {
      again = compare();
    } catch (const kj::Exception& e) {
      again = kAgain;
      log::warn("cannot look after the kubelet; retry in 5 s", {{"error", messageOf(e)}});
    }
    KJ_IF_MAYBE (pause, again) next = next.exclusiveJoin(timer.afterDelay(*pause));
    co_await next;
  }
}

kj::Maybe<kj::Duration> KubeletRun::compare() {
  auto what = wanted();
  if (what == nullptr) return nullptr;
  bool loaded = false;
  for (auto& id : deps.supervisor.ids()) loaded = loaded || id == kKubeletService;
  if (!loaded) return nullptr;
  capnp::MallocMessageBuilder scratch;
  auto service = scratch.initRoot<rpc::Service>();
  deps.supervisor.fill(kKubeletService, service);
  if (service.getState() == rpc::ServiceState::FAILED) return failedStart.again();
  auto digest = KJ_ASSERT_NONNULL(what).digest();
  if (service.getPid() == 0) {
    // It may be waiting for an image that is not wanted any more.
    bool waits = service.getState() == rpc::ServiceState::PREPARING;
    KJ_IF_MAYBE (before, prepared) {
      if (waits && before->digest() != digest) restart(0, digest);
    }
    return kLookAgain;  // nothing tells that a start has failed
  }
  KJ_IF_MAYBE (startedWith, tryReadFile(deps.startedWith)) {
    if (*startedWith == digest) {
      failedStart.works();
      return nullptr;
    }
  }
  restart(static_cast<int>(service.getPid()), digest);
  return kAgain;
}

// Once for each process, or for what it is to run with: until it has ended, it is on its way.
void KubeletRun::restart(int pid, kj::StringPtr digest) {
  auto what = pid == 0 ? kj::str(digest) : kj::str(pid);
  if (restarted == what) return;
  restarted = kj::mv(what);
  log::info("the kubelet is started anew: it is to run in another way");
  deps.supervisor.restart(kKubeletService).detach([this](kj::Exception&& e) {
    restarted = nullptr;
    log::warn("cannot restart the kubelet", {{"error", messageOf(e)}});
  });
}

}  // namespace talos::machined
