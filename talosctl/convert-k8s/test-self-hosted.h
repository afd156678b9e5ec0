// For tests: a cluster of three control-plane nodes and a worker whose control plane bootkube
// created: its objects in a model of Kubernetes' API, the nodes' configs, and the reactions of
// controllers, kubelets and pod-checkpointer over time.
#pragma once

#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/kube/test-kube-server.h"
#include "talosctl/convert-k8s/convert-run.h"

namespace talos::talosctl {

class ModelSelfHosted final : public ConvertibleNodes {
 public:
  explicit ModelSelfHosted(kj::Timer& timer) : kube(timer), timer(timer) {
    kube.addUsualKinds();
    for (unsigned i = 0; i < 4; ++i) putNode(i);
    kube::Json key{{"service-account.key", kj::encodeBase64(accountKey.bytes()).cStr()}};
    kube.put(at("api/v1", "secrets", "kube-controller-manager"),
             {{"metadata", {{"name", "kube-controller-manager"}}}, {"data", kj::mv(key)}});
    for (auto part : kConvertedParts) {
      bool hostNetwork = part == kConvertedParts[0];
      putDaemonSet(part, hostNetwork, kj::str("k8s.gcr.io/", part, ":v1.20.6"));
    }
    putDaemonSet("pod-checkpointer", true, kj::str("example/checkpointer:v1"));
    for (unsigned i = 0; i < kMasters; ++i) putCheckpoint(i, "Running");
  }

  static constexpr unsigned kMasters = 3;
  static constexpr kj::StringPtr kSpace = "/namespaces/kube-system/"_kj;

  kube::ModelKube kube;
  pki::Pem accountKey = pki::makeKey(pki::KeyType::kEcdsaP256);
  struct Node {
    bool persists = true;
    std::string patch;  // patch of its config
    std::string certificate;
    pki::Pem key;
    kj::TimePoint patchedAt = kj::origin<kj::TimePoint>();
  };
  Node configs[kMasters];
  std::string log;       // changes of nodes, in order
  std::string refusing;  // node that refuses configs
  bool key = true, known = true;
  bool generates = true;  // generates static pod definitions
  bool podsStart = true;  // starts static pods
  unsigned conflicts = 0;
  // Time without API servers after those of the DaemonSet have ended.
  kj::Duration away = 0 * kj::SECONDS;

  // Carries out all requests so far.
  void pass() {
    auto now = timer.now();
    for (auto part : kConvertedParts) {
      auto ended = goneFor(part);
      if (ended >= 5 * kj::SECONDS) dropPods(part, "DaemonSet");
      if (!key && podsStart) putStaticPods(part, ended >= 5 * kj::SECONDS + away);
    }
    if (goneFor("kube-apiserver") >= 5 * kj::SECONDS && !wasAway) {
      wasAway = true;
      awayUntil = now + away;
    }
    auto checkpointer = goneFor("pod-checkpointer");
    if (checkpointer >= 290 * kj::SECONDS) dropCheckpoint(0), dropCheckpoint(1);
    if (checkpointer >= 310 * kj::SECONDS && !staysPending) dropCheckpoint(2);
    if (checkpointer >= 310 * kj::SECONDS && staysPending && pods("checkpoint-2") == 1) {
      putCheckpoint(2, "Pending");
    }
    kube.instead = [this](auto& asked) -> kj::Maybe<kube::ModelKube::Reply> {
      requests += asked.method + " " + asked.path + "\n";
      if (timer.now() >= awayUntil) return nullptr;
      return kube::ModelKube::Reply{500, R"({"message":"the API server starts"})", ""};
    };
  }
  bool staysPending = false;
  std::string requests;

  bool hasDaemonSet(kj::StringPtr name) {
    return kube.find(at("apis/apps/v1", "daemonsets", name)) != nullptr;
  }
  // Returns true if only static pods run, from the configs, ready on every node.
  bool converted() {
    bool all = !key && !hasDaemonSet("pod-checkpointer");
    for (auto part : kConvertedParts) {
      all = all && !hasDaemonSet(part);
      for (unsigned i = 0; i < kMasters; ++i) {
        all = all && kube.find(podPath(part, "DaemonSet", i)) == nullptr &&
              kube.find(podPath(part, "Node", i)) != nullptr;
      }
    }
    return all;
  }
  size_t pods(kj::StringPtr name) {
    return kube.find(at("api/v1", "pods", name)) == nullptr ? 0 : 1;
  }
  static kj::String at(kj::StringPtr api, kj::StringPtr plural, kj::StringPtr name) {
    return kj::str("/", api, kSpace, plural, "/", name);
  }
  void putDaemonSet(kj::StringPtr name, bool hostNetwork, kj::StringPtr image) {
    kube::Json spec{
        {"hostNetwork", hostNetwork},
        {"containers", kube::Json::array({{{"image", image.cStr()}}, {{"image", "sidecar:v1"}}})}};
    kube.put(at("apis/apps/v1", "daemonsets", name),
             {{"metadata", {{"name", name.cStr()}, {"namespace", "kube-system"}}},
              {"spec", {{"template", {{"spec", kj::mv(spec)}}}}}});
    for (unsigned i = 0; i < kMasters; ++i) putPod(name, "DaemonSet", i, true);
  }

  kj::Promise<kj::Maybe<bool>> selfHosted(kj::StringPtr node) override {
    if (!known) return kj::Maybe<bool>(nullptr);
    return kj::Maybe<bool>(keyIsKnown());
  }
  bool keyIsKnown() const { return key || timer.now() < keyKnownUntil; }
  kj::Promise<ConvertedNode> read(kj::StringPtr node) override {
    auto& one = configs[numberOf(node)];
    return ConvertedNode{one.persists, {kj::str(one.certificate.c_str()), one.key.clone()}};
  }
  kj::Promise<void> patch(kj::StringPtr node, kj::StringPtr text, bool rehearsal) override {
    if (refusing == node.cStr()) return error(ErrorKind::kFailedPrecondition, "needs a reboot");
    if (rehearsal) return kj::READY_NOW;
    if (conflicts > 0) return --conflicts, error(ErrorKind::kConflict, "another apply runs");
    log += kj::str("patch ", node, "\n").cStr();
    auto& one = configs[numberOf(node)];
    if (one.patch.empty()) one.patchedAt = timer.now();
    one.patch = text.cStr();
    auto cluster = kube::readJson(text, "the patch")["cluster"];
    auto plain = [&](const char* name) {
      auto bytes = kj::decodeBase64(
          kj::StringPtr(cluster["aggregatorCA"][name].get_ref<const std::string&>().c_str()));
      return kj::heapString(bytes.asChars());
    };
    one.certificate = plain("crt").cStr();
    one.key = pki::Pem(plain("key"));
    return kj::READY_NOW;
  }
  kj::Promise<size_t> staticPods(kj::StringPtr node) override {
    auto& one = configs[numberOf(node)];
    bool all = generates && !one.patch.empty() && timer.now() - one.patchedAt >= 2 * kj::SECONDS;
    return all ? size_t(3) : size_t(0);
  }
  kj::Promise<size_t> manifests(kj::StringPtr node) override { return size_t(10); }
  kj::Promise<bool> removeInitializedKey(kj::StringPtr node) override {
    log += kj::str("key ", node, "\n").cStr();
    bool was = key;
    if (was) keyKnownUntil = timer.now() + 2 * kj::SECONDS;  // the nodes notice the removal later
    key = false;
    return was;
  }

 private:
  kj::Timer& timer;
  std::map<std::string, kj::TimePoint> goneSince;
  std::map<std::string, bool> staticReady;  // parts whose static pods exist
  kj::TimePoint keyKnownUntil = kj::origin<kj::TimePoint>();
  kj::TimePoint awayUntil = kj::origin<kj::TimePoint>();
  bool wasAway = false;

  static unsigned numberOf(kj::StringPtr address) {
    return static_cast<unsigned>(address[address.size() - 1] - '2');
  }
  void putNode(unsigned i) {
    kube::Json labels = kube::Json::object();
    if (i < kMasters) labels["node-role.kubernetes.io/master"] = "";
    auto name = kj::str("m-", i + 1), address = kj::str("10.5.0.", i + 2);
    kube::Json addresses =
        kube::Json::array({{{"type", "Hostname"}, {"address", name.cStr()}},
                           {{"type", "InternalIP"}, {"address", address.cStr()}}});
    kube.put(kj::str("/api/v1/nodes/", name),
             {{"metadata", {{"name", name.cStr()}, {"labels", labels}}},
              {"status", {{"addresses", addresses}}}});
  }
  static kj::String podPath(kj::StringPtr part, kj::StringPtr owner, unsigned i) {
    return at("api/v1", "pods", kj::str(part, "-", owner == "Node" ? "m-" : "x", i + 1));
  }
  void putPod(kj::StringPtr part, kj::StringPtr owner, unsigned i, bool ready) {
    auto path = podPath(part, owner, i);
    auto name = path.slice(KJ_ASSERT_NONNULL(path.findLast('/')) + 1);
    kube::Json annotations = kube::Json::object();
    if (owner == "Node") annotations["talos.dev/secrets-version"] = "1";
    kube.put(
        path,
        {{"metadata",
          {{"name", name.cStr()},
           {"namespace", "kube-system"},
           {"labels", {{"k8s-app", part.cStr()}}},
           {"annotations", annotations},
           {"ownerReferences", kube::Json::array({{{"kind", owner.cStr()}}})}}},
         {"status",
          {{"conditions",
            kube::Json::array({{{"type", "Ready"}, {"status", ready ? "True" : "False"}}})}}}});
  }
  void putCheckpoint(unsigned i, kj::StringPtr phase) {
    auto name = kj::str("checkpoint-", i);
    kube.put(at("api/v1", "pods", name),
             {{"metadata",
               {{"name", name.cStr()},
                {"namespace", "kube-system"},
                {"uid", name.cStr()},
                {"annotations", {{"checkpointer.alpha.coreos.com/checkpoint-of", "pod-x"}}}}},
              {"status", {{"phase", phase.cStr()}}}});
  }
  void dropCheckpoint(unsigned i) {
    auto path = at("api/v1", "pods", kj::str("checkpoint-", i));
    if (kube.find(path) != nullptr) kube.drop(path);
  }
  kj::Duration goneFor(kj::StringPtr daemonSet) {
    if (hasDaemonSet(daemonSet)) return -1 * kj::SECONDS;
    auto [since, fresh] = goneSince.emplace(daemonSet.cStr(), timer.now());
    return timer.now() - since->second;
  }
  void dropPods(kj::StringPtr part, kj::StringPtr owner) {
    for (unsigned i = 0; i < kMasters; ++i) {
      auto path = podPath(part, owner, i);
      if (kube.find(path) != nullptr) kube.drop(path);
    }
  }
  // Static pods cannot become ready beside pods of a DaemonSet that occupy the nodes' ports.
  void putStaticPods(kj::StringPtr part, bool alone) {
    bool occupied = false;
    KJ_IF_MAYBE (set, kube.find(at("apis/apps/v1", "daemonsets", part))) {
      occupied = isOnHostNetwork(*set);
    } else {
      occupied = !alone && part == kConvertedParts[0];
    }
    auto [ready, fresh] = staticReady.emplace(part.cStr(), !occupied);
    if (!fresh && ready->second == !occupied) return;
    ready->second = !occupied;
    for (unsigned i = 0; i < kMasters; ++i) putPod(part, "Node", i, !occupied);
  }
};

}  // namespace talos::talosctl
