// What several pages share is a file of its own, however small: the default would put a copy of it into each page's.
module.exports = { optimization: { splitChunks: { minSize: 0 } } };
