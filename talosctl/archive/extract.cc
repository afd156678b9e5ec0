#include "talosctl/archive/extract.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/error.h"

namespace talos::talosctl {

namespace {

// Inflates a gzip stream piece by piece.
class Gunzip {
 public:
  Gunzip() { KJ_REQUIRE(inflateInit2(&stream, 16 + MAX_WBITS) == Z_OK); }
  ~Gunzip() noexcept(false) { inflateEnd(&stream); }
  KJ_DISALLOW_COPY_AND_MOVE(Gunzip);

  template <typename F>
  void feed(kj::ArrayPtr<const kj::byte> in, F&& out) {
    kj::byte buffer[65536];
    stream.next_in = const_cast<kj::byte*>(in.begin());
    stream.avail_in = unsigned(in.size());
    do {
      if (ended) return;  // bytes after the end do not belong to the archive
      stream.next_out = buffer;
      stream.avail_out = sizeof(buffer);
      int status = inflate(&stream, Z_NO_FLUSH);
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
        fail(ErrorKind::kInvalidArgument,
             kj::str("the node did not send a valid gzip stream: ",
                     stream.msg == nullptr ? "damaged data" : stream.msg));
      }
      out(kj::arrayPtr(buffer, sizeof(buffer) - stream.avail_out));
      ended = status == Z_STREAM_END;
    } while (stream.avail_in > 0 || stream.avail_out == 0);
  }
  bool complete() const { return ended; }

 private:
  z_stream stream = {};
  bool ended = false;
};

kj::AutoCloseFd openDirectory(kj::StringPtr path) {
  if (mkdir(path.cStr(), 0777) != 0 && errno != EEXIST) {
    fail(ErrorKind::kFailedPrecondition, kj::str("cannot create ", path, ": ", strerror(errno)));
  }
  int fd = open(path.cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("cannot extract into ", path, ": ", strerror(errno)));
  }
  return kj::AutoCloseFd(fd);
}

}  // namespace

struct Extractor::Impl final : public TarVisitor {
  explicit Impl(kj::StringPtr directory) : root(openDirectory(directory)) {}

  kj::AutoCloseFd root;
  Gunzip gunzip;
  TarReader reader;
  kj::Vector<kj::String> left;
  struct Directory {
    kj::String path;
    uint32_t mode;
  };
  kj::Vector<Directory> directories;

  // The file that is being written.
  kj::AutoCloseFd file, parent;
  kj::String name;
  int64_t modified = 0;

  // Returns the directory that holds the last part of the path; creates missing directories.
  kj::AutoCloseFd walk(kj::ArrayPtr<const kj::String> parts, kj::StringPtr whole) {
    int copied = fcntl(root, F_DUPFD_CLOEXEC, 0);
    KJ_REQUIRE(copied >= 0, strerror(errno));
    kj::AutoCloseFd at(copied);
    for (auto& part : parts) {
      if (mkdirat(at, part.cStr(), 0777) != 0 && errno != EEXIST)
        broken(whole, "cannot create its directory");
      int fd = openat(at, part.cStr(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (fd < 0) broken(whole, kj::str("cannot open \"", part, "\" in its path as a directory"));
      at = kj::AutoCloseFd(fd);
    }
    return at;
  }

  [[noreturn]] void broken(kj::StringPtr path, kj::StringPtr what) {
    auto kind = errno == EEXIST ? ErrorKind::kConflict : ErrorKind::kFailedPrecondition;
    fail(kind, kj::str(path, ": ", what, ": ", strerror(errno)));
  }

  kj::Vector<kj::String> check(kj::StringPtr path) {
    KJ_IF_MAYBE (parts, safePath(path)) {
      return kj::mv(*parts);
    }
    fail(
        ErrorKind::kPermissionDenied,
        kj::str("the node's archive has an entry outside of the target directory: \"", path, "\""));
  }

  void entry(const TarEntry& e) override {
    if (e.kind == TarEntry::Kind::kDirectory && (e.path == "." || e.path == "./")) return;
    auto parts = check(e.path);
    auto directory = walk(parts.asPtr().slice(0, parts.size() - 1), e.path);
    auto& last = parts.back();
    switch (e.kind) {
      case TarEntry::Kind::kFile: {
        int fd = openat(directory, last.cStr(),
                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, e.mode & 0777);
        if (fd < 0) broken(e.path, "cannot create it");
        file = kj::AutoCloseFd(fd);
        parent = kj::mv(directory);
        name = kj::mv(last);
        modified = e.modified;
        return;
      }
      case TarEntry::Kind::kDirectory:
        walk(parts, e.path);
        directories.add(Directory{kj::str(e.path), e.mode & 0777});
        return;
      case TarEntry::Kind::kSymlink:
        if (symlinkat(e.link.cStr(), directory, last.cStr()) != 0)
          broken(e.path, "cannot create the link");
        return;
      case TarEntry::Kind::kHardLink: {
        auto target = check(e.link);
        auto from = walk(target.asPtr().slice(0, target.size() - 1), e.link);
        if (linkat(from, target.back().cStr(), directory, last.cStr(), 0) != 0)
          broken(e.path, "cannot create the hard link");
        return;
      }
      case TarEntry::Kind::kOther:
        left.add(kj::str(e.path, ": not a file, directory or link"));
        return;
    }
  }

  void data(kj::ArrayPtr<const kj::byte> bytes) override {
    if (file.get() < 0) return;
    while (bytes.size() > 0) {
      ssize_t n = write(file, bytes.begin(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) broken(name, "cannot write it");
      bytes = bytes.slice(size_t(n), bytes.size());
    }
  }

  void end() override {
    if (file.get() < 0) return;
    struct timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                                {.tv_sec = modified, .tv_nsec = 0}};
    futimens(file, times);
    file = nullptr;
  }
};

Extractor::Extractor(kj::StringPtr directory) : impl(kj::heap<Impl>(directory)) {}

Extractor::~Extractor() noexcept(false) {
  if (impl->file.get() >= 0) unlinkat(impl->parent, impl->name.cStr(), 0);
}

void Extractor::feed(kj::ArrayPtr<const kj::byte> compressed) {
  impl->gunzip.feed(compressed, [&](kj::ArrayPtr<const kj::byte> bytes) {
    KJ_IF_MAYBE (problem, impl->reader.feed(bytes, *impl)) {
      fail(ErrorKind::kInvalidArgument, kj::str("the node sent a damaged archive: ", *problem));
    }
  });
}

void Extractor::finish() {
  KJ_IF_MAYBE (problem, impl->reader.finish()) {
    fail(ErrorKind::kInvalidArgument, kj::str("the node sent a damaged archive: ", *problem));
  }
  if (!impl->gunzip.complete())
    fail(ErrorKind::kInvalidArgument, "the node's archive is truncated");
  // Children before parents, so that a directory without write permission can be filled first.
  for (size_t i = impl->directories.size(); i-- > 0;) {
    auto& d = impl->directories[i];
    auto fd = impl->walk(impl->check(d.path), d.path);
    fchmod(fd, d.mode);
  }
}

kj::ArrayPtr<const kj::String> Extractor::skipped() const {
  return impl->left;
}

}  // namespace talos::talosctl
