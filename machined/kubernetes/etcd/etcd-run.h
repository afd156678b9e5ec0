// Runs the service `etcd` of this machine: prepares its starts and restarts it when its settings
// change. etcd-supervisor decides the settings (etcd/EtcdSpecs); the config decides whether etcd is
// a process of the system or a container.
//
// A start needs a spec that wants etcd to run; /var/lib/etcd, for etcd's uid only; the certificates
// in /etc/kubernetes/pki/etcd; and the recovery from a snapshot, if the spec has one. A snapshot is
// unpacked in a separate folder and becomes the data by one rename, so after a crash at any line
// the data is either complete, or missing and unpacked again. etcd-supervisor gives up a snapshot
// that cannot be unpacked: the failure is reported when no part of it is left, and after the answer
// the spec does not have it any more.
//
// The running process itself is compared with the spec (/proc/<pid>/cmdline, environ), so that a
// restarted brain also knows if it matches: if not, it is stopped, and started when the spec wants
// it. Renewed certificates are written immediately; etcd reads them at its next handshake.
// Certificates with other CAs are written only before a start, for which etcd is stopped: after any
// crash, while the file has the old CAs, the running process has them too. If the new CAs overlap
// with the old ones (cluster.etcd.acceptedCAs), etcd waits for its turn; otherwise it is stopped
// immediately. A failed start is retried after 1 s and then after up to a minute. A running etcd is
// restarted when etcd-supervisor gives it its turn, which is kept until it runs as wanted; an etcd
// that must not run any more is stopped immediately. The choice between system and image is made
// once per boot and kept in /run.
#pragma once

#include <kj/async-io.h>

#include "common/base/node-layout.h"
#include "common/base/signal.h"
#include "machined/resources/store.h"
#include "machined/services/start-backoff.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/local.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kEtcdService = "etcd"_kj;
constexpr kj::StringPtr kEtcdData = "/var/lib/etcd"_kj;
constexpr kj::StringPtr kEtcdPki = "/etc/kubernetes/pki/etcd"_kj;

// Returns --name=master-1 …, in the order of the spec.
kj::Vector<kj::String> etcdArguments(rpc::EtcdSpecSpec::Reader spec);

// Returns the variables of the environment (K=V) that etcd gets for its spec: those of the proxy,
// if the spec has one. They replace proxies of machine.env, which cannot know the members.
kj::Vector<kj::String> etcdVariables(rpc::EtcdSpecSpec::Reader spec);

// Returns true if a process with this command line and this environment (words ended by zeros) runs
// as the spec wants; nullptr while it is still the exec wrapper and not etcd.
kj::Maybe<bool> runsAsWanted(kj::StringPtr cmdline, kj::StringPtr environ,
                             rpc::EtcdSpecSpec::Reader spec);

// The peer URL that the members of etcd have for this node, compared with the address of the config
// (EtcdConfigs): etcd-supervisor changes it after the config has changed.
struct PeerUrlState {
  bool known = true;   // false while etcd must run and its member is not known
  bool waits = false;  // the problem: this node lacks what the config requires, such as an address
  // The members have a URL that the config does not advertise, and why; or the node waits.
  kj::Maybe<kj::String> problem;
};
PeerUrlState peerUrlState(Store& store);

// Writes ca.crt, peer.crt, peer.key, server.crt and server.key to a folder that belongs to `uid`;
// each file is complete at any moment and readable for this user only. Unchanged files are not
// written. Blocking.
void writeEtcdFiles(kj::StringPtr folder, rpc::EtcdSecretsSpec::Reader secrets, unsigned uid);
// The difference between new CAs and those of the files, which a running etcd has. kNone if there
// are no files. Blocking.
enum class AuthorityChange {
  kNone,
  kOverlapping,  // members with either verify each other
  kOther
};
AuthorityChange authorityChange(kj::StringPtr folder, rpc::EtcdSecretsSpec::Reader secrets);

// Makes a folder for this uid only. Blocking.
void makeEtcdData(kj::StringPtr folder, unsigned uid);

class EtcdRun {
 public:
  struct Dependencies {
    kj::Timer& timer;
    // Runs blocking work on the thread pool.
    kj::Function<kj::Promise<void>(kj::Function<void()> work)> blocking;
    Store& store;
    Supervisor& supervisor;
    kj::StringPtr data = kEtcdData, pki = kEtcdPki, chosenImage = "/run/talos/etcd.image"_kj;
    kj::StringPtr processes = "/proc"_kj;
    unsigned uid = kEtcdUid;
    // Unpacks a snapshot into a new folder; rejects with the error.
    kj::Function<kj::Promise<void>(rpc::EtcdSpecSpec::Reader spec, kj::StringPtr snapshot,
                                   kj::StringPtr folder)>
        unpack;
    rpc::EtcdSupervisor::Client membership;
  };
  explicit EtcdRun(Dependencies deps);
  KJ_DISALLOW_COPY_AND_MOVE(EtcdRun);

  // Resolves when etcd may be started; failures are noted and retried.
  kj::Promise<void> prepare(kj::Function<void(kj::StringPtr)> note);
  kj::Array<kj::String> arguments();
  // Returns the image; empty for the system's etcd. Chosen once per boot: a change of the config
  // has effect from the next boot on.
  kj::StringPtr image();
  // Checks the store now and at each change.
  void follow();
  // Waits until etcd-supervisor has made the spec from the present config (EtcdConfigs), and etcd
  // runs with its arguments, at most `timeout`.
  // Resolves with the reason why it does not; nullptr if it does, or must not run. `words` returns
  // etcd's own error, or an empty text.
  kj::Promise<kj::Maybe<kj::String>> notInEffect(kj::Duration timeout,
                                                 kj::Function<kj::String()> words);

 private:
  Dependencies deps;
  kj::Timer& timer;
  FailedStart failedStart;
  Signal changed;
  kj::Own<void> specs, secrets, services;
  kj::Maybe<kj::String> chosen;
  kj::ForkedPromise<void> files = kj::Promise<void>(kj::READY_NOW).fork();
  struct Found;
  kj::Promise<void> watching = nullptr, rerunning = nullptr;
  bool reruns = false;
  kj::String refusal;  // logged refusal of its turn

  kj::Promise<void> wanted(kj::Function<void(kj::StringPtr)>& note);
  kj::Promise<void> makeReady();
  kj::Promise<void> recover();
  kj::Promise<void> watch();
  kj::Promise<void> writeFiles();     // before a start
  kj::Promise<void> refreshFiles();   // of a running etcd
  kj::Maybe<kj::Duration> compare();  // returns when to look again if nothing changes before
  kj::Maybe<bool> asWanted(unsigned pid);
  unsigned pid();
  void restart(kj::StringPtr reason);  // immediately
  void askToRestart(kj::StringPtr reason);
  kj::Promise<void> rerun(kj::String reason);
  kj::Promise<void> inOrder(kj::Function<void()> work);
};

// Returns the newest error in the last lines of etcd's log, without time and place; empty for a log
// without errors.
kj::String errorOfEtcd(kj::ArrayPtr<const char> log);

// Returns the error, ": …", in the output of a failed etcdutl.
kj::String errorOfTool(kj::ArrayPtr<const char> output);

// Unpacks a snapshot by etcdutl, as etcd's uid, confined to the two folders. Rejects with its
// error.
kj::Promise<void> unpackSnapshot(kj::AsyncIoContext& io, rpc::EtcdSpecSpec::Reader spec,
                                 kj::StringPtr snapshot, kj::StringPtr folder);

}  // namespace talos::machined
