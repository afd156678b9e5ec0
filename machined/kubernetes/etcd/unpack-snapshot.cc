// Unpacks a snapshot by etcd's own tool.
#include <unistd.h>

#include "common/base/node-layout.h"
#include "common/base/node-messages.h"
#include "common/base/within.h"
#include "common/kernel/library-folders.h"
#include "common/text/foreign-text.h"
#include "machined/confined/parser-client/confined-process.h"
#include "machined/kubernetes/etcd/etcd-run.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kTool = "/usr/bin/etcdutl"_kj;
constexpr auto kTimeout = 10 * kj::MINUTES;  // for 8 GB, the most that etcd supports

constexpr size_t kMostOutput = 16u << 10, kMostLine = 300;

kj::StringPtr valueOf(rpc::EtcdSpecSpec::Reader spec, kj::StringPtr key) {
  for (auto argument : spec.getArguments()) {
    if (argument.getKey() == key) return argument.getValue();
  }
  return "";
}

// Reads the stream to its end, and keeps the beginning.
kj::Promise<void> readAll(kj::AsyncIoStream& stream, kj::Vector<char>& output) {
  kj::byte piece[4096];
  for (;;) {
    size_t n = 0;
    co_await stream.tryRead(piece, 1, sizeof piece)
        .then([&](size_t read) { n = read; }, [](kj::Exception&&) {});
    if (n == 0) co_return;
    auto room = kMostOutput - output.size();
    output.addAll(kj::arrayPtr(piece, kj::min(n, room)).asChars());
  }
}

}  // namespace

kj::String errorOfTool(kj::ArrayPtr<const char> output) {
  kj::String last;
  for (size_t at = 0; at < output.size();) {
    auto end = at;
    while (end < output.size() && output[end] != '\n') ++end;
    auto line = fieldText(output.slice(at, end), kMostLine);
    for (auto mark : {"Error: "_kj, "panic: "_kj, "fatal error: "_kj}) {
      if (line.startsWith(mark)) return kj::str(": ", line.slice(mark.size()));
    }
    if (line.size() > 0) last = kj::mv(line);
    at = end + 1;
  }
  return last.size() > 0 ? kj::str(": ", last) : kj::String();
}

kj::Promise<void> unpackSnapshot(kj::AsyncIoContext& io, rpc::EtcdSpecSpec::Reader spec,
                                 kj::StringPtr snapshot, kj::StringPtr folder) {
  kj::Vector<kj::String> argv;
  auto add = [&](auto&&... parts) { argv.add(kj::str(parts...)); };
  auto owned = kj::str(kj::heapString(folder.slice(0, folder.findLast('/').orDefault(0))));
  auto source = kj::heapString(snapshot.slice(0, snapshot.findLast('/').orDefault(0)));
  add(kConfine);
  add("--uid=", kEtcdUid);
  add("--seccomp=foreign");
  for (auto path : kLibraryFolders) add("--landlock-libraries=", path);
  add("--landlock-read=", kTool);
  add("--landlock-read=", source);
  add("--landlock-write=", owned);
  add("--oom-score=1000");
  add("--rlimit=core=0");
  add("--lifetime=", getpid());
  add("--output=socket");
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
  kj::Vector<char> output;
  auto& stream = child->stream();
  co_await within(io.provider->getTimer(), kTimeout, readAll(stream, output),
                  kj::str("etcdutl has not unpacked ", snapshot, " within 10 minutes"));
  auto ended = co_await ConfinedChild::end(kj::mv(child));
  if (ended == kj::str(messages::kExitedWithStatus, 0)) co_return;
  fail(ErrorKind::kInvalidArgument, kj::str("etcdutl ", ended, errorOfTool(output)));
}

}  // namespace talos::machined
