// Archives with installer images, fetched from a web server or sent by the client that requests the
// upgrade. An archive is stored in a file without a name (image-spool.h), and examined only if it
// has the named digest, and a valid signature if the config names a key.
//
// An archive is foreign: a confined process finds the files in it
// (machined/confined/parser/image-archive.h); the brain only carries bytes. Nothing is kept:
// dropping a promise ends its work, and a restarted brain has none.
#pragma once

#include <kj/async-io.h>

#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/upgrade/image-spool.h"
#include "rpc/upgrade.capnp.h"

namespace talos::machined {

struct ArchiveUrl {
  HttpSource place;
  kj::String sha256;  // in hex; empty: any content is accepted, which only https allows
};
// Returns nullptr if `image` is not a URL. `query`: the URL's part after a question mark, given
// separately. Pure. InvalidArgument with the valid form.
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
  // Returns a verified archive. `key`: a public key in PEM, empty if there is no key. With a key
  // the archive needs a valid signature; for a URL it is at the same URL with .sig after its path.
  // InvalidArgument if the bytes do not have the digest, PermissionDenied if they are not signed,
  // FailedPrecondition if they are not an installer image.
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
    kj::Function<kj::Promise<kj::String>()> authorities;  // CAs that are trusted with https, PEM
    ForeignBytes& foreign;
    kj::StringPtr folder = "/var";
  };
  explicit RealImageArchives(Dependencies deps) : deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(RealImageArchives);

  // Continues an interrupted download where it stopped, if the server supports this. An attempt
  // ends after a minute in which the server sends nothing. The whole download fails after five
  // attempts in a row without new bytes, and after 18 minutes, including the download of the
  // signature.
  kj::Promise<ImageArchive> fetch(ArchiveUrl url, kj::String key, Progress progress) override;
  // Reads at the node's pace: requests a megabyte at a time. The client has a minute for each, and
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
