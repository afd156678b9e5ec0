// Notes of the text that machine.files appended to files below /var, so that it can be found and
// removed again.
//
// The notes are in one file that is replaced as a whole. A text is noted before it is written to
// its file and forgotten after it was removed from it; so at any time each text that machined wrote
// is noted. The notes hold secrets of the config: only root may read them.
#pragma once

#include <kj/map.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos::machined {

using Block = kj::Array<char>;

// Returns `text` without the longest block of `blocks` in it, at its last place. A block matches
// whole lines only: from its line break to the end of a line.
kj::Array<char> withoutBlock(kj::ArrayPtr<const char> text, kj::ArrayPtr<const Block> blocks);

class AppendedNotes {
 public:
  // InvalidArgument if the notes cannot be read.
  static AppendedNotes parse(kj::ArrayPtr<const char> content);
  // Returns no notes if the file does not exist.
  static AppendedNotes load(kj::StringPtr path);
  void save(kj::StringPtr path) const;

  AppendedNotes() = default;
  AppendedNotes(AppendedNotes&&) = default;
  AppendedNotes& operator=(AppendedNotes&&) = default;
  ~AppendedNotes() noexcept(false);

  kj::ArrayPtr<const Block> of(kj::StringPtr file) const;
  // Returns true if the block was not noted before.
  bool note(kj::StringPtr file, kj::ArrayPtr<const char> block);
  void replace(kj::StringPtr file, kj::Maybe<kj::ArrayPtr<const char>> block);
  kj::Vector<kj::String> files() const;

 private:
  kj::TreeMap<kj::String, kj::Vector<Block>> blocks;
};

}  // namespace talos::machined
