// Finds the files of an installer image in an archive: a tar that is an OCI layout, as `make
// installer-image`, `skopeo copy … oci-archive:` and `docker save` (25 or newer) write it.
//
// The layers form one file system: a later layer replaces and removes files of earlier ones. They
// must not be compressed: the installer copies the files out of the archive as they are. Digests of
// blobs are not compared: the digest of the whole archive was compared, and the digest of each file
// will be.
//
// Pure: the caller reads the bytes. They are foreign; for any bytes, every returned part was named
// by them, and the search ends within kMostArchiveReads reads.
#pragma once

#include <kj/vector.h>

#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/confined/parser/superblock.h"

namespace talos::parse {

// Returns all files that an installer image must have, or throws FailedPrecondition with the
// problem. The archive has `size` bytes. `read` returns at most kMostSuperblockBytes at a time, and
// fewer bytes than requested at the end.
kj::Vector<machined::ImagePart> findImageParts(uint64_t size, ReadBytes read);

}  // namespace talos::parse
