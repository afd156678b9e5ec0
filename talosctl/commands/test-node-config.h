// The machine config of a test's node: requests and answers.
#pragma once

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/config/config.h"
#include "rpc/configuration.capnp.h"
#include "rpc/storage.capnp.h"

namespace talos::talosctl {

struct FakeConfig {
  kj::String document;  // running config
  kj::Vector<kj::String> applied;
  rpc::ApplyMode mode = rpc::ApplyMode::REBOOT;  // mode of the last request
  bool dryRun = false;
  uint64_t ifVersion = 0, tryTimeoutMs = 0;
  uint64_t trialMs = 0;  // the config is on trial for this time
  uint64_t version = 1;  // version of the config resource
  unsigned readings = 0;
  // Refusals of the next requests, in turn; empty elements are successes.
  kj::Vector<kj::Maybe<kj::Exception>> refusals;
  // Configs that other clients apply before the next requests arrive, in turn.
  kj::Vector<kj::String> others;
  // Mode in the answer. Default: the requested mode; auto is answered as without a reboot.
  kj::Maybe<rpc::ApplyMode> done;
  kj::Vector<kj::String> warnings, liveChanges, otherChanges, notInEffect, restarts;
  bool confirmed = false;
  kj::String diff;
  kj::Vector<kj::String> networkPlan, networkProblems, volumePlan;
  kj::String talosconfig;  // answer of generate(); empty: no talosconfig
  // An operation that continues after the answer: its number, and its reported states in turn.
  uint64_t operation = 0;
  kj::Vector<kj::String> operationStates;  // "running", "failed: …"
  bool losesAnswer = false;  // begins the operation that a request names, and does not answer it
};

class FakeConfiguration final : public rpc::Configuration::Server {
 public:
  FakeConfiguration(FakeConfig& config, kj::StringPtr bootId, bool& rebooting)
      : config(config), bootId(kj::str(bootId)), rebooting(rebooting) {}

  kj::Promise<void> apply(ApplyContext context) override {
    auto request = context.getParams().getRequest();
    config.mode = request.getMode();
    config.dryRun = request.getDryRun();
    config.ifVersion = request.getIfVersion();
    config.tryTimeoutMs = request.getTryTimeoutMs();
    if (config.refusals.size() > 0) {
      auto refusal = kj::mv(config.refusals.front());
      kj::Vector<kj::Maybe<kj::Exception>> rest;
      for (size_t i = 1; i < config.refusals.size(); ++i) rest.add(kj::mv(config.refusals[i]));
      config.refusals = kj::mv(rest);
      KJ_IF_MAYBE (e, refusal) return kj::mv(*e);
    }
    if (config.others.size() > 0) applyOther();
    if (config.ifVersion != 0 && config.ifVersion != config.version) {
      fail(ErrorKind::kConflict, "the config changed in the meantime");
    }
    config.applied.add(kj::heapString(request.getDocument().asChars()));
    if (config.losesAnswer) {
      config.operation = request.getOperation();
      return kj::NEVER_DONE;
    }
    auto result = context.getResults().initResult();
    auto usual = config.mode == rpc::ApplyMode::AUTO ? rpc::ApplyMode::NO_REBOOT : config.mode;
    result.setMode(config.done.orDefault(usual));
    result.setDiff(config.diff);
    result.setTrialMs(config.trialMs);
    result.setBootId(bootId);
    result.setOperation(config.operation);
    result.setConfirmed(config.confirmed);
    fillTexts(result.initNotInEffect(config.notInEffect.size()), config.notInEffect);
    fillTexts(result.initRestarts(config.restarts.size()), config.restarts);
    fillTexts(result.initWarnings(config.warnings.size()), config.warnings);
    auto changes = result.initChanges(config.liveChanges.size() + config.otherChanges.size());
    unsigned at = 0;
    for (auto& path : config.liveChanges) {
      changes[at].setPath(path);
      changes[at++].setLive(true);
    }
    for (auto& path : config.otherChanges) changes[at++].setPath(path);
    if (result.getMode() == rpc::ApplyMode::TRY) result.setRevertsInMs(config.tryTimeoutMs);
    fillTexts(result.initNetworkPlan(config.networkPlan.size()), config.networkPlan);
    fillTexts(result.initVolumePlan(config.volumePlan.size()), config.volumePlan);
    fillTexts(result.initNetworkProblems(config.networkProblems.size()), config.networkProblems);
    if (!config.dryRun && result.getMode() == rpc::ApplyMode::REBOOT) rebooting = true;
    return kj::READY_NOW;
  }
  kj::Promise<void> generate(GenerateContext context) override {
    auto request = context.getParams().getRequest();
    auto documents = context.getResults().initDocuments(config.talosconfig.size() == 0 ? 3 : 4);
    unsigned at = 0;
    for (auto name : {"talosconfig", "join.yaml", "init.yaml", "controlplane.yaml"}) {
      if (config.talosconfig.size() == 0 && at == 0 && name[0] == 't') continue;
      documents[at].setName(name);
      // The configs are machine configs, so that they are accepted as such.
      auto text = name[0] == 't' ? kj::str(config.talosconfig)
                                 : kj::str("# ", name, " ", request.getEndpoint(), " ",
                                           request.getInstallDisk(), "\n", config.document);
      documents[at++].setContent(text.asBytes());
    }
    return kj::READY_NOW;
  }

 private:
  FakeConfig& config;

  void applyOther() {
    config.document = kj::mv(config.others.front());
    ++config.version;
    kj::Vector<kj::String> rest;
    for (size_t i = 1; i < config.others.size(); ++i) rest.add(kj::mv(config.others[i]));
    config.others = kj::mv(rest);
  }

  kj::String bootId;
  bool& rebooting;
};

using FakeMeta = kj::TreeMap<uint32_t, kj::Array<kj::byte>>;

class FakeStorage final : public rpc::Storage::Server {
 public:
  explicit FakeStorage(FakeMeta& meta) : meta(meta) {}

  kj::Promise<void> disks(DisksContext context) override {
    auto disk = context.getResults().initDisks(1)[0];
    disk.setDevice("/dev/vda");
    disk.setSize(6442450944);
    disk.setModalias("virtio:d00000002v00001AF4");
    return kj::READY_NOW;
  }
  kj::Promise<void> readMeta(ReadMetaContext context) override {
    auto key = context.getParams().getKey();
    if (key != 0) require(key);
    auto values = context.getResults().initValues(key == 0 ? meta.size() : 1);
    unsigned at = 0;
    for (auto& it : meta) {
      if (key != 0 && key != it.key) continue;
      values[at].setKey(it.key);
      values[at++].setValue(it.value);
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> writeMeta(WriteMetaContext context) override {
    auto params = context.getParams();
    meta.upsert(params.getKey(), kj::heapArray<kj::byte>(params.getValue()));
    return kj::READY_NOW;
  }
  kj::Promise<void> newRecoveryKey(NewRecoveryKeyContext context) override {
    auto params = context.getParams();
    context.getResults().setPassphrase(
        kj::str("opens-", params.getVolume(), "-", params.getSlot()));
    return kj::READY_NOW;
  }
  kj::Promise<void> wipe(WipeContext context) override {
    auto params = context.getParams();
    for (auto name : params.getDevices()) {
      if (name == "vda") {
        fail(ErrorKind::kFailedPrecondition, "blockdevice \"vda\" is the disk of the system");
      }
      auto request = params.getProgress().writeRequest();
      request.setBytes(
          kj::str(params.getZeroes() ? "zeroing" : "wiping", " /dev/", name, "\n").asBytes());
      co_await request.send();
    }
  }
  kj::Promise<void> deleteMeta(DeleteMetaContext context) override {
    require(context.getParams().getKey());
    meta.erase(context.getParams().getKey());
    return kj::READY_NOW;
  }

 private:
  FakeMeta& meta;

  void require(uint32_t key) {
    if (meta.find(key) == nullptr) fail(ErrorKind::kNotFound, kj::str("no value ", key));
  }
};

}  // namespace talos::talosctl
