// Archives with installer images: fetched from a web server, or sent by the client who asks for the
// upgrade. What comes lies in a file without a name (image-spool.h), and is looked into only when
// it has the digest that was named, and the signature if the config names a key.
//
// An archive is foreign: a confined process finds the files in it
// (machined/confined/parser/image-archive.h), the brain only carries bytes. Nothing is kept:
// whoever drops a promise ends it, and a restarted brain has none.
#pragma once

#include <kj/async-io.h>

#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/upgrade/image-spool.h"
#include "rpc/upgrade.capnp.h"

namespace talos::machined {

struct ArchiveUrl {
  HttpSource place;
  kj::String sha256;  // in hex; empty: whatever the server has, which only https may say
};
// None: it is not a URL. `query` is what it has behind a question mark, given apart. Pure.
// InvalidArgument saying what would be right.
kj::Maybe<ArchiveUrl> archiveUrl(kj::StringPtr image, kj::StringPtr query);

struct ClientFile {
  rpc::ByteSource::Client bytes;
  uint64_t size;
  kj::Array<kj::byte> sha256, signature;
};

struct ImageArchive {
  kj::Own<ImageSpool> file;
  kj::Vector<ImagePart> parts;
  kj::String sha256;  // in hex

  int descriptor() const { return file.get() == nullptr ? -1 : file->descriptor(); }
};

class ImageArchives {
 public:
  virtual ~ImageArchives() noexcept(false) = default;
  using Progress = kj::Function<void(uint64_t done, uint64_t size)>;  // 0: the size is not known
  // `key` is a public key in PEM, empty if there is none: then a signature must fit, of a URL that
  // of the URL with .sig behind its path. InvalidArgument when the bytes are not what was named,
  // PermissionDenied when they are not signed, FailedPrecondition when they are no installer image.
  virtual kj::Promise<ImageArchive> fetch(ArchiveUrl url, kj::String key, Progress progress) = 0;
  virtual kj::Promise<ImageArchive> receive(kj::String name, ClientFile file, kj::String key,
                                            Progress progress) = 0;
};

class RealImageArchives final : public ImageArchives {
 public:
  struct Dependencies {
    UvLoop& uv;
    kj::Timer& timer;
    const kj::Clock& clock;
    kj::Network& network;
    kj::Function<kj::Promise<kj::Array<kj::String>>(kj::StringPtr host)> resolve;
    kj::Function<kj::Promise<kj::String>()> authorities;  // who is trusted with https, PEM
    ForeignBytes& foreign;
    kj::StringPtr folder = "/var";
  };
  explicit RealImageArchives(Dependencies deps) : deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(RealImageArchives);

  // A download that is cut off goes on where it was, if the server can do that. A minute in which
  // the server sends nothing ends a try; five tries in a row that bring nothing, and 18 minutes,
  // end it all, with the download of the signature.
  kj::Promise<ImageArchive> fetch(ArchiveUrl url, kj::String key, Progress progress) override;
  // At the node's pace: the client is asked for a megabyte at a time, and has a minute for it, and
  // 18 minutes for all of it.
  kj::Promise<ImageArchive> receive(kj::String name, ClientFile file, kj::String key,
                                    Progress progress) override;

 private:
  class Target;
  class ToSpool;
  class ToMemory;
  class Watched;
  Dependencies deps;

  kj::Promise<void> download(const HttpSource& source, Target& target, kj::TimePoint deadline);
  kj::Promise<void> attempt(const HttpSource& source, Target& target, Watched& watched,
                            HttpProgress& state);
  kj::Promise<void> stalled(const Watched& watched, const HttpProgress& state);
  kj::Promise<kj::Array<kj::byte>> signatureAt(const HttpSource& archive, kj::TimePoint deadline);
  kj::Promise<void> take(ClientFile& file, kj::StringPtr name, ImageSpool& spool,
                         Progress& progress);
  kj::Promise<void> verify(ImageSpool& spool, kj::StringPtr name, kj::StringPtr digest,
                           kj::Own<pki::VerifyKey> key, kj::Array<kj::byte> signature);
  kj::Promise<ImageArchive> opened(kj::Own<ImageSpool> spool, kj::StringPtr name,
                                   kj::String digest);
};

}  // namespace talos::machined
