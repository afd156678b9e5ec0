#include "talosctl/report/support-bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/version.h"
#include "common/config/config-redact.h"
#include "common/memory/zeroize.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/report/file-end.h"
#include "talosctl/report/node-report.h"

namespace talos::talosctl {
namespace {

// Limit of a file's end: consoles of clusters that run for weeks are large.
constexpr size_t kMostOfAFile = 16u << 20;

kj::Promise<void> addNode(Invocation& call, const Access& access, const BundledNode& node,
                          ReportArchive& archive, size_t index, kj::String& outcome) {
  NodeFolder folder(archive, index, node.folder);
  archive.progress.set(index, "connecting");
  if (co_await reportNode(call, access, node.node, folder)) {
    outcome = kj::str(folder.files(), " files");
    ++archive.answered;
  } else {
    outcome = kj::str("does not answer");
    call.err(kj::str("WARNING: ", archive.errors.back()));
  }
  archive.progress.set(index, outcome);
}

void addFile(const BundledFile& file, ReportArchive& archive) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 if (file.config) {
                   auto text = readFile(file.path);
                   KJ_DEFER(zeroize(text));
                   archive.zip.add(file.name, config::redact(text));
                 } else KJ_IF_MAYBE (text, tryReadEnd(file.path, kMostOfAFile)) {
                   archive.zip.add(file.name, printableText(*text));
                 } else {
                   fail(ErrorKind::kNotFound, kj::str(file.path, " does not exist"));
                 }
               })) {
    archive.errors.add(kj::str(file.name, ": ", messageOf(*e), "\n"));
  }
}

[[noreturn]] void refuseToReplace(kj::StringPtr path) {
  fail(ErrorKind::kConflict, kj::str(path, " exists; remove it, or use --output"));
}

// The temporary file of an archive until it is complete; removed if it never is. Each run has its
// own.
class Unfinished {
 public:
  explicit Unfinished(kj::StringPtr path) : path(kj::str(path)) {
    if (access(path.cStr(), F_OK) == 0) refuseToReplace(path);
    auto name = kj::str(path, ".XXXXXX.part");
    int raw = mkostemps(name.begin(), 5, O_CLOEXEC);  // implies O_EXCL
    if (raw < 0) {
      int error = errno;
      fail(ErrorKind::kInvalidArgument, kj::str("cannot write ", path, ": ", strerror(error)));
    }
    fd = kj::AutoCloseFd(raw);
    part = kj::mv(name);
    KJ_SYSCALL(fchmod(fd, 0600), part);  // independent of the umask
  }
  ~Unfinished() noexcept {
    if (part.size() > 0) unlink(part.cStr());
  }
  KJ_DISALLOW_COPY_AND_MOVE(Unfinished);
  int get() const { return fd; }
  // Renames it to its final name, unless another run was faster.
  void finish() {
    KJ_SYSCALL(fsync(fd), part);
    if (renameat2(AT_FDCWD, part.cStr(), AT_FDCWD, path.cStr(), RENAME_NOREPLACE) == 0) {
      part = nullptr;
      return;
    }
    // Some network file systems do not support this rename, but support links.
    if (errno == EINVAL && link(part.cStr(), path.cStr()) == 0) return;  // the part is removed
    if (errno == EEXIST) refuseToReplace(path);
    KJ_FAIL_SYSCALL("renameat2", errno, path);
  }

 private:
  kj::String path, part;
  kj::AutoCloseFd fd;
};

kj::String summary(Invocation& call, const Bundle& bundle,
                   kj::ArrayPtr<const kj::String> outcomes) {
  kj::Vector<kj::String> lines;
  lines.add(kj::str("talosctl ", buildVersion().tag, "\ncreated ", dateText(call.deps.clock.now()),
                    "\n\n"));
  for (auto i : kj::indices(bundle.nodes)) {
    auto& node = bundle.nodes[i];
    bool same = node.node == node.folder;
    lines.add(kj::str(node.folder, same ? kj::str() : kj::str(" (", node.node, ")"), ": ",
                      outcomes[i], "\n"));
  }
  return kj::strArray(lines, "");
}

}  // namespace

kj::Promise<size_t> writeSupportBundle(Invocation& call, const Access& access, const Bundle& bundle,
                                       kj::StringPtr path) {
  Unfinished file(path);
  kj::FdOutputStream out(file.get());
  ZipWriter zip(out, call.deps.clock.now());
  auto names = KJ_MAP(node, bundle.nodes) {
    return kj::str(node.folder);
  };
  Progress progress(call.deps.console, names);
  ReportArchive archive{.zip = zip, .progress = progress, .errors = {}};
  auto outcomes = kj::heapArray<kj::String>(bundle.nodes.size());
  auto workers = bundle.nodes.size();
  if (bundle.atOnce > 0) workers = kj::min(workers, bundle.atOnce);
  size_t next = 0;
  auto work = [&]() -> kj::Promise<void> {
    while (next < bundle.nodes.size()) {
      auto i = next++;
      co_await addNode(call, access, bundle.nodes[i], archive, i, outcomes[i]);
    }
  };
  auto all = kj::heapArrayBuilder<kj::Promise<void>>(workers);
  for (size_t i = 0; i < workers; ++i) all.add(work());
  co_await kj::joinPromisesFailFast(all.finish());
  for (auto& local : bundle.files) addFile(local, archive);
  zip.add("summary.txt", summary(call, bundle, outcomes));
  if (archive.errors.size() > 0) zip.add("errors.txt", kj::strArray(archive.errors, ""));
  zip.finish();
  file.finish();
  call.err(kj::str("wrote ", path, ": ", zip.files(), " files, ", zip.bytes() >> 10, " KiB\n"));
  co_return archive.answered;
}

}  // namespace talos::talosctl
