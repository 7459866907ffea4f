// Command badger4 serves the current BadgerDB over HTTP.
package main

import (
	"github.com/dgraph-io/badger/v4"

	"quaver.dev/go/bench/serve"
)

type store struct{ db *badger.DB }

func main() {
	serve.Main(func(dir string, keys uint64) (serve.Store, error) {
		db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithSyncWrites(false))
		if err != nil {
			return nil, err
		}
		batch := db.NewWriteBatch()
		defer batch.Cancel()
		for i := uint64(0); i < keys; i++ {
			if err := batch.Set(serve.Key(i), serve.Value(i)); err != nil {
				return nil, err
			}
		}
		return store{db}, batch.Flush()
	})
}

func (s store) Get(key uint64) (value []byte, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(serve.Key(key))
		if err == nil {
			value, err = item.ValueCopy(nil)
		}
		return err
	})
	return value, err
}

func (s store) Scan(key uint64, n int) (sum uint64, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		options := badger.DefaultIteratorOptions
		options.PrefetchValues = false // values are read right here, in this goroutine
		it := txn.NewIterator(options)
		defer it.Close()
		for it.Seek(serve.Key(key)); n > 0 && it.Valid(); it.Next() {
			err := it.Item().Value(func(v []byte) error {
				for _, b := range v {
					sum += uint64(b)
				}
				return nil
			})
			if err != nil {
				return err
			}
			n--
		}
		return nil
	})
	return sum, err
}
