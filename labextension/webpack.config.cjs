module.exports = {
  optimization: {
    // What several pages share is a file of its own, however small: the default would put a copy of it into each page's.
    splitChunks: { minSize: 0 },
    // Numbers by order: the default makes the entry's of its path, and a panel built in another folder would differ.
    moduleIds: 'natural',
  },
};
