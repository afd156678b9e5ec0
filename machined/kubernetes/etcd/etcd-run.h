// The service `etcd` on this machine: what it waits for, what is made for it before each start, and
// when it is started anew. What it is started with is etcd-supervisor's decision
// (etcd/EtcdSpecs); whether it is a process of the system or a container, that of the config.
//
// Before a start: the spec wants it to run; /var/lib/etcd is there, its uid's alone; the
// certificates are in /etc/kubernetes/pki/etcd; what is to be recovered from a snapshot is. A
// snapshot is unpacked beside the data and becomes the data by one rename, so after a crash at any
// line there is nothing, and it is unpacked again, or all of it. One that cannot be is etcd-
// supervisor's to give up: it is told when nothing of it is left, and the spec wants it no more
// when that is answered.
//
// What runs is asked for itself (/proc/<pid>/cmdline), so a brain that was restarted knows as well
// whether it is what is wanted: if not, it is stopped, and started when the spec wants it. Renewed
// certificates are written at once; etcd reads them at its next handshake. Those of another CA are
// written only before a start, for which it is stopped: so as long as the file has the old CA, what
// runs has it too, whoever crashes. A start that failed is tried again, after 1 s and then after up
// to a minute. One that runs is restarted when etcd-supervisor gives it its turn, which is kept
// until it runs as is wanted; one that is not to run any more is stopped at once. Which image it
// is, is decided once in a boot and kept in /run.
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

// --name=master-1 …, in the order of the spec.
kj::Vector<kj::String> etcdArguments(rpc::EtcdSpecSpec::Reader spec);

// Whether a process with this command line (its words ended by zeros) is run as the spec wants;
// none while it is not etcd yet but what confines it.
kj::Maybe<bool> runsAsWanted(kj::StringPtr cmdline, rpc::EtcdSpecSpec::Reader spec);

// ca.crt, peer.crt, peer.key, server.crt and server.key in a folder that belongs to `uid`, each
// whole and readable for it alone. What is there already is left. Blocking.
void writeEtcdFiles(kj::StringPtr folder, rpc::EtcdSecretsSpec::Reader secrets, unsigned uid);
// False where there is no file of it. Blocking.
bool hasOtherAuthority(kj::StringPtr folder, rpc::EtcdSecretsSpec::Reader secrets);

// A folder for this uid alone. Blocking.
void makeEtcdData(kj::StringPtr folder, unsigned uid);

class EtcdRun {
 public:
  struct Dependencies {
    kj::Timer& timer;
    // Runs what blocks where it holds up nobody.
    kj::Function<kj::Promise<void>(kj::Function<void()> work)> blocking;
    Store& store;
    Supervisor& supervisor;
    kj::StringPtr data = kEtcdData, pki = kEtcdPki, chosenImage = "/run/talos/etcd.image"_kj;
    kj::StringPtr processes = "/proc"_kj;
    unsigned uid = kEtcdUid;
    // Unpacks a snapshot into a folder that is not there yet; rejects with the reason.
    kj::Function<kj::Promise<void>(rpc::EtcdSpecSpec::Reader spec, kj::StringPtr snapshot,
                                   kj::StringPtr folder)>
        unpack;
    rpc::EtcdSupervisor::Client membership;
  };
  explicit EtcdRun(Dependencies deps);
  KJ_DISALLOW_COPY_AND_MOVE(EtcdRun);

  // Resolves when etcd may be started; what cannot be done is told and tried again.
  kj::Promise<void> prepare(kj::Function<void(kj::StringPtr)> note);
  kj::Array<kj::String> arguments();
  // Empty: etcd of the system. Of this boot: a change of the config counts from the next one on.
  kj::StringPtr image();
  // Looks at the store now, and from then on at each change.
  void follow();

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
  kj::String refusal;  // of its turn, that was logged

  kj::Promise<void> wanted(kj::Function<void(kj::StringPtr)>& note);
  kj::Promise<void> makeReady();
  kj::Promise<void> recover();
  kj::Promise<void> watch();
  kj::Promise<void> writeFiles();     // before a start
  kj::Promise<void> refreshFiles();   // of what may run
  kj::Maybe<kj::Duration> compare();  // when to look again, if nothing changes before
  kj::Maybe<bool> asWanted(unsigned pid);
  unsigned pid();
  void restart(kj::StringPtr why);  // at once
  void askToRestart(kj::StringPtr why);
  kj::Promise<void> rerun(kj::String why);
  kj::Promise<void> inOrder(kj::Function<void()> work);
};

// What is wrong, ": …", of what etcdutl has written when it failed.
kj::String wordsOfTool(kj::ArrayPtr<const char> output);

// The unpacking of a snapshot by etcdutl, as etcd's uid, confined to the two folders. Rejects with
// its words.
kj::Promise<void> unpackSnapshot(kj::AsyncIoContext& io, rpc::EtcdSpecSpec::Reader spec,
                                 kj::StringPtr snapshot, kj::StringPtr folder);

}  // namespace talos::machined
