// Where the files of an installer image lie in an archive with it: a tar that is an OCI layout, as
// `make installer-image`, `skopeo copy … oci-archive:` and `docker save` (25 or newer) write it.
//
// Its layers are seen as one file system: a later one replaces and removes files of those before.
// They must not be compressed: whoever installs the files copies them out of the archive as they
// lie there. Digests of blobs are not compared here: the digest of the whole archive was, and that
// of each file will be.
//
// Pure: whoever calls it brings the bytes. They are foreign; whatever they are, every part that is
// returned was named by them, and it ends within kMostArchiveReads reads.
#pragma once

#include <kj/vector.h>

#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/confined/parser/superblock.h"

namespace talos::parse {

// All files that an installer image must have. FailedPrecondition saying what is wrong otherwise.
// The archive has `size` bytes. `read` gives kMostSuperblockBytes at most at a time, and fewer
// bytes than asked for at the end.
kj::Vector<machined::ImagePart> findImageParts(uint64_t size, ReadBytes read);

}  // namespace talos::parse
