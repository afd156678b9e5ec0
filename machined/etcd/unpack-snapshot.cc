// The unpacking of a snapshot, by the tool that etcd itself has for it.
#include <unistd.h>

#include "common/base/node-layout.h"
#include "common/base/within.h"
#include "machined/etcd/etcd-run.h"
#include "machined/foreign/confined-child.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kTool = "/usr/bin/etcdutl"_kj;
constexpr auto kPatience = 10 * kj::MINUTES;  // of 8 GB, the most that etcd takes

kj::StringPtr valueOf(rpc::EtcdSpecSpec::Reader spec, kj::StringPtr key) {
  for (auto argument : spec.getArguments()) {
    if (argument.getKey() == key) return argument.getValue();
  }
  return "";
}

}  // namespace

kj::Promise<void> unpackSnapshot(kj::AsyncIoContext& io, rpc::EtcdSpecSpec::Reader spec,
                                 kj::StringPtr snapshot, kj::StringPtr folder) {
  kj::Vector<kj::String> argv;
  auto add = [&](auto&&... parts) { argv.add(kj::str(parts...)); };
  auto owned = kj::str(kj::heapString(folder.slice(0, folder.findLast('/').orDefault(0))));
  auto source = kj::heapString(snapshot.slice(0, snapshot.findLast('/').orDefault(0)));
  add(kConfine);
  add("--uid=", kEtcdUid);
  add("--seccomp=foreign");
  add("--landlock-libraries=/usr/lib");
  add("--landlock-libraries=/usr/lib64");
  add("--landlock-read=", kTool);
  add("--landlock-read=", source);
  add("--landlock-write=", owned);
  add("--oom-score=1000");
  add("--rlimit=core=0");
  add("--lifetime=", getpid());
  add("--output=none");
  add("--");
  add(kTool);
  add("snapshot");
  add("restore");
  add(snapshot);
  add("--data-dir=", folder);
  for (auto key : {"name"_kj, "initial-cluster"_kj, "initial-cluster-token"_kj,
                   "initial-advertise-peer-urls"_kj}) {
    add("--", key, "=", valueOf(spec, key));
  }
  if (spec.getSkipHashCheck()) add("--skip-hash-check");

  auto child = kj::heap<ConfinedChild>(io, argv);
  // It has the other end of the socket and says nothing there: its end is the end of the stream.
  kj::byte none;
  auto& stream = child->stream();
  co_await within(io.provider->getTimer(), kPatience,
                  stream.tryRead(&none, 1, 1).ignoreResult().catch_([](kj::Exception&&) {}),
                  kj::str("etcdutl has not unpacked ", snapshot, " within 10 minutes"));
  auto ended = co_await ConfinedChild::end(kj::mv(child));
  if (ended != "exited with status 0") {
    fail(ErrorKind::kInternal,
         kj::str("cannot unpack the snapshot ", snapshot, ": etcdutl ", ended));
  }
}

}  // namespace talos::machined
