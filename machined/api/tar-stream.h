// A gzip'd tar of a file tree, produced piece by piece: what `cp` sends.
//
// Memory is one piece, whatever the tree. Files that grow are cut and files that shrink are filled
// with zeros to the size that their header promised (and named as damaged), so the archive is
// always whole. Left out and named: what cannot be read, devices, sockets and FIFOs. Steps block:
// for the thread pool.
#pragma once

#include <kj/io.h>

#include "common/tar/tar-writer.h"
#include "machined/api/tree-walk.h"

namespace talos::machined {

class Archive {
 public:
  // The path must be absolute (InvalidArgument); see TreeWalk for the rest. The root itself is left
  // out, unless it is a file.
  explicit Archive(kj::StringPtr path);

  // Up to about 64 KiB more, possibly none although there is more to come; absent at the end.
  kj::Maybe<kj::Array<kj::byte>> next();

  // "<path>: <reason>", the first 1000 of them and a count of the rest.
  kj::Vector<kj::String> takeUnreadable();

 private:
  TreeWalk walk;
  Gzip gzip;
  kj::Vector<kj::byte> out;
  kj::Maybe<kj::AutoCloseFd> file;  // whose content is being sent
  kj::String filePath;
  uint64_t left = 0;    // of it
  uint64_t zeros = 0;   // to send before the next header
  bool ending = false;  // the walk has ended
  bool finished = false;
  kj::Vector<kj::String> unreadable;
  uint64_t unnamed = 0;

  void add(TreeWalk::Visit visit);
  void addFile(const TreeWalk::Visit& visit, TarHeader entry);
  void addContent();
  void addZeros();
  void header(const TarHeader& entry);
  void skip(kj::StringPtr path, kj::StringPtr reason);
};

}  // namespace talos::machined
