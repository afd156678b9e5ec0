// A gzip'd tar of a file tree, produced piece by piece: the stream that `cp` sends.
//
// Memory is one piece, whatever the tree. A file that grows is cut, and a file that shrinks is
// filled with zeros, to the size in its header (and named as damaged), so the archive is always
// whole. Left out and named: unreadable files, devices, sockets and FIFOs. Steps block: for the
// thread pool.
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

  // Returns up to about 64 KiB more, possibly an empty piece before the end; nullptr at the end.
  kj::Maybe<kj::Array<kj::byte>> next();

  // Returns "<path>: <reason>", the first 1000 of them and a count of the rest.
  kj::Vector<kj::String> takeUnreadable();

 private:
  TreeWalk walk;
  Gzip gzip;
  kj::Vector<kj::byte> out;
  kj::Maybe<kj::AutoCloseFd> file;  // the file that is being sent
  kj::String filePath;
  uint64_t left = 0;    // rest of the file
  uint64_t zeros = 0;   // bytes of padding before the next header
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
