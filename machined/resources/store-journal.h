// The store's journal as bytes: a heading of 8 bytes, then records.
//
//   record  = length · checksum · message
//   length    of the message: 32 bits, little-endian, a multiple of 8
//   checksum  CRC-32 of length and message: 32 bits, little-endian
//   message   rpc::Change in Cap'n Proto's flat form: "created" and "updated" carry the whole
//             resource, "destroyed" its metadata
//
// Reading ends at the first record that is incomplete or has a wrong checksum: a journal that was
// cut anywhere, or torn in its last write, reads as it was after some earlier record. Nothing here
// reads or writes files; recover() accepts any bytes.
#pragma once

#include <capnp/common.h>
#include <kj/array.h>
#include <kj/function.h>

#include "rpc/resources.capnp.h"

namespace talos::machined::journal {

kj::ArrayPtr<const kj::byte> heading();

kj::Array<kj::byte> encode(rpc::Change::Reader change);
// Returns a flat message after its length and checksum.
kj::Array<kj::byte> frame(kj::ArrayPtr<const kj::byte> message);

// Calls `apply` for every record of the longest valid prefix, in order, and returns the length of
// that prefix in bytes; 0 if even the heading is missing.
size_t recover(kj::ArrayPtr<const capnp::word> bytes,
               kj::FunctionParam<void(rpc::Change::Reader)> apply);

// Returns true if the bytes after the valid prefix are what a crash during an append leaves: the
// beginning of one record (or nothing). Then no record was lost that any reader saw. Otherwise the
// journal is damaged.
bool isTornAfter(kj::ArrayPtr<const capnp::word> bytes, size_t valid);

}  // namespace talos::machined::journal
